// AllToAll: every rank sends each rank one block of its rows.
#pragma once

#include "ops/collectives.h"
#include "ops/contract.h"

namespace fk {

class AllToAll : public Operator {
 public:
  static constexpr std::string_view kName = "all_to_all";
  static constexpr std::string_view kClass = "AllToAll";
  static constexpr int kLevel = 1;
  static constexpr bool kCollective = true;
  using Init = CollectiveInit;

  // x [T, N], world_size blocks of rows: block i goes to rank i -> out [T, N]: block i comes from rank i.
  static constexpr std::array kArgs{in("x"), out("out")};

  explicit AllToAll(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init&, DType) { return {}; }  // a copy is exact
  static std::vector<Case<AllToAll>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
