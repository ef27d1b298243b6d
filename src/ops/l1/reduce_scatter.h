// ReduceScatter: the sum of a tensor over all ranks, of which each rank keeps one block.
#pragma once

#include "ops/collectives.h"
#include "ops/contract.h"

namespace fk {

class ReduceScatter : public Operator {
 public:
  static constexpr std::string_view kName = "reduce_scatter";
  static constexpr std::string_view kClass = "ReduceScatter";
  static constexpr int kLevel = 1;
  static constexpr bool kCollective = true;

  struct Init {
    int64_t world_size = 1;
    int64_t rank = 0;
    int64_t dim = -1;  // -1: blocks of columns; 0: blocks of rows

    template <class Visitor>
    void visit(Visitor&& v) {
      v("world_size", world_size);
      v("rank", rank);
      v("dim", dim);
    }
    operator CollectiveInit() const { return {world_size, rank}; }
  };

  // x [T, N] -> out [T, N / world_size], or [T / world_size, N]: block `rank` of the sum.
  static constexpr std::array kArgs{in("x"), out("out")};

  explicit ReduceScatter(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<ReduceScatter>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
