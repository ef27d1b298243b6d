// SigmoidMulAdd: rows times the sigmoid of a gate of their own, added to others. For shared experts.
#pragma once

#include "ops/contract.h"

namespace fk {

class SigmoidMulAdd : public Operator {
 public:
  static constexpr std::string_view kName = "sigmoid_mul_add";
  static constexpr std::string_view kClass = "SigmoidMulAdd";
  static constexpr int kLevel = 1;

  struct Init {
    template <class Visitor>
    void visit(Visitor&&) {}
  };

  // x, residual [T, D], rows contiguous; gate f32 [T, 1] -> out [T, D] = residual + sigmoid(gate) x, rounded once.
  static constexpr std::array kArgs{in("x"), in("gate"), in("residual"), out("out")};

  explicit SigmoidMulAdd(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View gate, View residual, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<SigmoidMulAdd>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
