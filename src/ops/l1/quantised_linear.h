// The common part of the operators that multiply by a matrix in a ScaledFormat: x W^T + b, with the tensors of each
// stacked matrix as parameters. An operator adds its name and its cases.
//
// The oracle multiplies by the dequantised matrix. Activations may be rounded as the format says
// (ActivationRounding); the tolerance is derived from this rounding.
#pragma once

#include "ops/contract.h"
#include "ops/formats/scaled_format.h"
#include "ops/l1/linear.h"

namespace fk {

struct QuantisedLinearInit {
  int64_t in_features = 0;
  int64_t out_features = 0;
  bool bias = false;
  bool float_output = false;               // logits: keep the f32 accumulators
  std::vector<int64_t> output_sizes = {};  // rows of each stacked matrix; empty: there is one
  // Of all of them, or of each: "int4_awq_g128+int4_awq_g64+int4_awq_g128" (ops/formats/format_map.h).
  std::string weight_format = {};
  DType dtype = DType::kBF16;  // of the bias

  template <class Visitor>
  void visit(Visitor&& v) {
    v("in_features", in_features);
    v("out_features", out_features);
    v("bias", bias);
    v("float_output", float_output);
    v("output_sizes", output_sizes);
    v("weight_format", weight_format);
    v("dtype", dtype);
  }
};

class QuantisedLinear : public Operator {
 public:
  using Init = QuantisedLinearInit;
  static constexpr int kLevel = 1;

  // x [T, in_features], rows contiguous -> out [T, out_features]. The parameters are the tensors of the format, with
  // "_0", "_1", ... behind their names where several matrices are stacked, and the bias.
  static constexpr std::array kArgs{in("x"), out("out")};

  explicit QuantisedLinear(const Init& init);
  virtual void forward(Context& ctx, View x, View out) = 0;

  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static Tolerance tolerance_on(const Init& init, DType dtype, Args given);

 protected:
  struct Part {
    const ScaledFormat* format;
    int64_t row, rows;             // of out
    size_t first_tensor, tensors;  // among the parameters
  };
  // Valid until the weights are bound again.
  std::span<const View> tensors(const Part& part) const { return {&param(part.first_tensor), part.tensors}; }
  const View& bias() const { return param(parts_.back().first_tensor + parts_.back().tensors); }
  const void* bias_data() const { return init_.bias ? bias().data() : nullptr; }

  // The oracle's forward.
  void multiply_dequantised(Context& ctx, const View& x, const View& out) const;

  const Init init_;
  std::vector<Part> parts_;
};

template <class T>
class QuantisedLinearOracle final : public T {
 public:
  using T::T;
  void forward(Context& ctx, View x, View out) override { this->multiply_dequantised(ctx, x, out); }
};

// Shapes that every format of an operator is tested with: one token and several, odd sizes, several matrices with a
// bias, logits, no token. `group`: what in_features must be a multiple of.
template <class T>
std::vector<Case<T>> quantised_linear_cases(const std::vector<std::string>& formats, int64_t group) {
  std::vector<Case<T>> cases;
  auto c = [](int64_t in, int64_t out, const std::string& format) {
    return QuantisedLinearInit{.in_features = in, .out_features = out, .weight_format = format};
  };
  // At least 64 outputs in each: errors are allowed in proportion to the largest of them.
  for (const std::string& format : formats) {
    cases.push_back({format + ", one token", c(3 * group, 136, format), Workload::tokens(1)});
    cases.push_back({format + ", several tokens", c(2 * group, 72, format), Workload::tokens(7)});
  }
  cases.push_back({"many tokens", c(group, 200, formats[0]), Workload::tokens(37)});
  cases.push_back({"no tokens", c(group, 64, formats[0]), Workload::tokens(0)});
  QuantisedLinearInit stacked = c(2 * group, 104, formats.front() + "+" + formats.back() + "+" + formats.front());
  stacked.output_sizes = {64, 24, 16};
  stacked.bias = true;
  cases.push_back({"stacked, bias", stacked, Workload::tokens(3)});
  QuantisedLinearInit logits = c(group, 136, formats.back());
  logits.float_output = true;
  cases.push_back({"logits", logits, Workload::tokens(5)});
  return cases;
}

}  // namespace fk
