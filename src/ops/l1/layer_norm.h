// LayerNorm: (x - mean(x)) / sqrt(var(x) + eps) * weight over the last dimension, optionally adding a residual first.
#pragma once

#include "ops/contract.h"

namespace fk {

class LayerNorm : public Operator {
 public:
  static constexpr std::string_view kName = "layer_norm";
  static constexpr std::string_view kClass = "LayerNorm";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t hidden_size = 0;
    double eps = 1e-5;
    int64_t num_heads = 0;  // heads that have a weight each; 0: one weight for all rows
    bool bias = false;      // added after the weight, of its shape
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("hidden_size", hidden_size);
      v("eps", eps);
      v("num_heads", num_heads);
      v("bias", bias);
      v("dtype", dtype);
    }
  };

  // x [T, D] or, without a residual, [T, H, D]; rows contiguous. With a residual: residual_out = x + residual, and out
  // is the norm of that sum. weight [D], or [H, D] where heads have one each.
  static constexpr std::array kArgs{in("x"), opt_in("residual"), out("out"), opt_out("residual_out")};

  explicit LayerNorm(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, OptView residual, View out, OptView residual_out) = 0;

  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<LayerNorm>> cases();

 protected:
  // Why no implementation on any device supports such a call; empty if one may.
  std::string_view refuse_call(Args args) const;

  const View& weight() const { return param(0); }
  OptView bias() const { return init_.bias ? OptView(param(1)) : std::nullopt; }
  const Init init_;
};

}  // namespace fk
