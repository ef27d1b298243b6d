// GateLinear: the logits of a router, or of another gate, in f32 like the accumulators: rounded ones would often change
// which experts are chosen.
#pragma once

#include "ops/l1/linear.h"

namespace fk {

class GateLinear : public Operator {
 public:
  static constexpr std::string_view kName = "gate_linear";
  static constexpr std::string_view kClass = "GateLinear";
  static constexpr int kLevel = 2;

  struct Init {
    int64_t input_size = 0;
    int64_t output_size = 0;
    bool bias = false;
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("input_size", input_size);
      v("output_size", output_size);
      v("bias", bias);
      v("dtype", dtype);
    }
  };

  // x [T, D] -> logits [T, E], f32 or wider. Every rank has all of it.
  static constexpr std::array kArgs{in("x"), out("logits")};

  explicit GateLinear(const Init&) {}
  virtual void forward(Context& ctx, View x, View logits) = 0;

  static Linear::Init product(const Init& init) {
    return {.in_features = init.input_size,
            .out_features = init.output_size,
            .bias = init.bias,
            .float_output = true,
            .dtype = init.dtype};
  }
  static OutputSpecs outputs(const Init& init, Args given) { return Linear::outputs(product(init), given); }
  static Inputs inputs(const Init& init, const Workload& w) { return Linear::inputs(product(init), w); }
  static Cost cost(const Init& init, const Workload& w) { return Linear::cost(product(init), w); }
  static Tolerance tolerance(const Init& init, DType dtype) { return Linear::tolerance(product(init), dtype); }
  static std::vector<Case<GateLinear>> cases();
};

}  // namespace fk
