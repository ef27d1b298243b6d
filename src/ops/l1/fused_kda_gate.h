// FusedKDAGate: decays and betas of Kimi delta attention from their projections.
#pragma once

#include "ops/contract.h"

namespace fk {

class FusedKDAGate : public Operator {
 public:
  static constexpr std::string_view kName = "fused_kda_gate";
  static constexpr std::string_view kClass = "FusedKDAGate";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t num_heads = 0;
    int64_t head_dim = 0;  // of keys, each element of which has a decay
    DType dtype = DType::kBF16;

    int64_t width() const { return num_heads * head_dim; }

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_heads", num_heads);
      v("head_dim", head_dim);
      v("dtype", dtype);
    }
  };

  // f [T, heads * head_dim] and b [T, heads], rows contiguous -> g f32 [T, heads * head_dim] = -exp(A_log) softplus(f +
  // dt_bias), beta f32 [T, heads] = sigmoid(b).
  static constexpr std::array kArgs{in("f"), in("b"), out("g"), out("beta")};

  explicit FusedKDAGate(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View f, View b, View g, View beta) = 0;

  // A_log [1, 1, heads, 1] and dt_bias [heads * head_dim], f32 in checkpoints of any dtype.
  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<FusedKDAGate>> cases();

 protected:
  const View& a_log() const { return param(0); }
  const View& dt_bias() const { return param(1); }
  const Init init_;
};

}  // namespace fk
