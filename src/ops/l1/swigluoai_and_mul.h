// SwigluOAIAndMul: gate * sigmoid(alpha * gate) * (up + 1), both limited, where gate and up alternate in the last
// dimension.
#pragma once

#include "ops/contract.h"

namespace fk {

class SwigluOAIAndMul : public Operator {
 public:
  static constexpr std::string_view kName = "swigluoai_and_mul";
  static constexpr std::string_view kClass = "SwigluOAIAndMul";
  static constexpr int kLevel = 1;

  struct Init {
    double alpha = 1.702;
    double limit = 7;  // gate is at most this, up between this and its negative

    template <class Visitor>
    void visit(Visitor&& v) {
      v("alpha", alpha);
      v("limit", limit);
    }
  };

  // x [T, 2 F], rows contiguous: gate 0, up 0, gate 1, up 1, ... -> out [T, F].
  static constexpr std::array kArgs{in("x"), out("out")};

  explicit SwigluOAIAndMul(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<SwigluOAIAndMul>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
