// AllReduce: the sum of a tensor over all ranks.
#pragma once

#include "ops/collectives.h"
#include "ops/contract.h"

namespace fk {

class AllReduce : public Operator {
 public:
  static constexpr std::string_view kName = "allreduce";
  static constexpr std::string_view kClass = "AllReduce";
  static constexpr int kLevel = 1;
  static constexpr bool kCollective = true;
  using Init = CollectiveInit;

  // x [T, N] -> out [T, N], equal on every rank.
  static constexpr std::array kArgs{in("x"), out("out")};

  explicit AllReduce(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<AllReduce>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
