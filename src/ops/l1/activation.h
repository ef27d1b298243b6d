// Activation: one function of every element, of those that feed-forward blocks without a gate and pooling heads use.
#pragma once

#include "ops/contract.h"

namespace fk {

class Activation : public Operator {
 public:
  static constexpr std::string_view kName = "activation";
  static constexpr std::string_view kClass = "Activation";
  static constexpr int kLevel = 1;

  struct Init {
    // As transformers names them: gelu (with erf), gelu_pytorch_tanh, quick_gelu, relu, relu2 (its square),
    // sigmoid, silu, tanh.
    std::string function = "gelu";

    template <class Visitor>
    void visit(Visitor&& v) {
      v("function", function);
    }
  };

  // x [T, F], rows contiguous -> out [T, F].
  static constexpr std::array kArgs{in("x"), out("out")};

  explicit Activation(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<Activation>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
