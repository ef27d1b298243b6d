// SigmoidMul: x * sigmoid(gate), the gate of an attention's output.
#pragma once

#include "ops/contract.h"

namespace fk {

class SigmoidMul : public Operator {
 public:
  static constexpr std::string_view kName = "sigmoid_mul";
  static constexpr std::string_view kClass = "SigmoidMul";
  static constexpr int kLevel = 1;

  struct Init {
    template <class Visitor>
    void visit(Visitor&&) {}
  };

  // x, gate [T, H, D], rows contiguous -> out [T, H, D].
  static constexpr std::array kArgs{in("x"), in("gate"), out("out")};

  explicit SigmoidMul(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View gate, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<SigmoidMul>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
