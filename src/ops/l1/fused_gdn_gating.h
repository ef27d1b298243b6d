// FusedGDNGating: decays and betas of a gated delta net from their projection.
#pragma once

#include "ops/contract.h"

namespace fk {

class FusedGDNGating : public Operator {
 public:
  static constexpr std::string_view kName = "fused_gdn_gating";
  static constexpr std::string_view kClass = "FusedGDNGating";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t num_k_heads = 0;
    int64_t num_v_heads = 0;  // a multiple of num_k_heads
    DType dtype = DType::kBF16;

    int64_t shared() const { return num_v_heads / num_k_heads; }

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_k_heads", num_k_heads);
      v("num_v_heads", num_v_heads);
      v("dtype", dtype);
    }
  };

  // ba [T, 2 heads of values], rows contiguous: for each head of keys b, then a, of the heads of values that share it
  // -> g f32 [T, heads] = -exp(A_log) softplus(a + dt_bias), beta f32 [T, heads] = sigmoid(b).
  static constexpr std::array kArgs{in("ba"), out("g"), out("beta")};

  explicit FusedGDNGating(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View ba, View g, View beta) = 0;

  // A_log and dt_bias [heads of values].
  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<FusedGDNGating>> cases();

 protected:
  // Where b of a head of values is in a row; a is shared() elements behind it.
  int64_t place_of(int64_t head) const { return head / init_.shared() * 2 * init_.shared() + head % init_.shared(); }
  const View& a_log() const { return param(0); }
  const View& dt_bias() const { return param(1); }
  const Init init_;
};

}  // namespace fk
