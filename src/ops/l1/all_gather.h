// AllGather: the tensors of all ranks side by side, or one below the other.
#pragma once

#include "ops/collectives.h"
#include "ops/contract.h"

namespace fk {

class AllGather : public Operator {
 public:
  static constexpr std::string_view kName = "all_gather";
  static constexpr std::string_view kClass = "AllGather";
  static constexpr int kLevel = 1;
  static constexpr bool kCollective = true;

  struct Init {
    int64_t world_size = 1;
    int64_t rank = 0;
    int64_t dim = -1;         // -1: columns behind columns; 0: rows below rows
    int64_t output_size = 0;  // columns of the result at most: what is behind them is padding; 0: all. With dim -1 only

    template <class Visitor>
    void visit(Visitor&& v) {
      v("world_size", world_size);
      v("rank", rank);
      v("dim", dim);
      v("output_size", output_size);
    }
    operator CollectiveInit() const { return {world_size, rank}; }
  };

  // x [T, N] -> out [T, world_size * N], or [world_size * T, N], equal on every rank.
  static constexpr std::array kArgs{in("x"), out("out")};

  explicit AllGather(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init&, DType) { return {}; }  // a copy is exact
  static std::vector<Case<AllGather>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
