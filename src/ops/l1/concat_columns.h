// ConcatColumns: two matrices beside each other.
#pragma once

#include "ops/contract.h"

namespace fk {

class ConcatColumns : public Operator {
 public:
  static constexpr std::string_view kName = "concat_columns";
  static constexpr std::string_view kClass = "ConcatColumns";
  static constexpr int kLevel = 1;

  struct Init {
    template <class Visitor>
    void visit(Visitor&&) {}
  };

  // left [T, A], right [T, B], rows contiguous -> out [T, A + B].
  static constexpr std::array kArgs{in("left"), in("right"), out("out")};

  explicit ConcatColumns(const Init&) {}
  virtual void forward(Context& ctx, View left, View right, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init&, DType) { return {}; }  // a copy is exact
  static std::vector<Case<ConcatColumns>> cases();

 protected:
  // Why no implementation on any device supports such a call; empty if one may.
  std::string_view refuse_call(Args args) const;
};

}  // namespace fk
