// ScaleAdd: x * scale, and a residual added to it where one is given. For models whose residual stream, or whose
// logits, have a factor, and for blocks that are added without a norm after them.
#pragma once

#include "ops/contract.h"

namespace fk {

class ScaleAdd : public Operator {
 public:
  static constexpr std::string_view kName = "scale_add";
  static constexpr std::string_view kClass = "ScaleAdd";
  static constexpr int kLevel = 1;

  struct Init {
    double scale = 1;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("scale", scale);
    }
  };

  // x, residual [T, D], rows contiguous -> out [T, D] = residual + scale * x, rounded once.
  static constexpr std::array kArgs{in("x"), opt_in("residual"), out("out")};

  explicit ScaleAdd(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, OptView residual, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<ScaleAdd>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
