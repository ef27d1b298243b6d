// KimiDeltaAttention: the recurrent block of Kimi-Linear: one product with all projections, a short convolution of
// queries, keys and values, the delta rule with a decay for every element of a key, a gated norm of heads, output
// projection. Decays and gates come through projections of low rank.
#pragma once

#include "ops/contract.h"
#include "ops/l1/causal_conv1d.h"
#include "ops/l1/linear_recurrence.h"

namespace fk {

class KimiDeltaAttention : public Operator {
 public:
  static constexpr std::string_view kName = "kimi_delta_attention";
  static constexpr std::string_view kClass = "KimiDeltaAttention";
  static constexpr int kLevel = 2;

  struct Init {
    int64_t hidden_size = 0;
    int64_t num_heads = 0;
    int64_t head_dim = 0;  // of queries, keys and values, and the rank of the projections of decays and gates
    int64_t conv_kernel_size = 4;
    double rms_norm_eps = 1e-5;  // of the norm of heads
    DType dtype = DType::kBF16;

    int64_t width() const { return num_heads * head_dim; }

    template <class Visitor>
    void visit(Visitor&& v) {
      v("hidden_size", hidden_size);
      v("num_heads", num_heads);
      v("head_dim", head_dim);
      v("conv_kernel_size", conv_kernel_size);
      v("rms_norm_eps", rms_norm_eps);
      v("dtype", dtype);
    }
  };

  // hidden_states [T, D] -> out [T, D].
  static constexpr std::array kArgs{in("hidden_states"), out("out")};

  explicit KimiDeltaAttention(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View hidden_states, View out) = 0;

  // A matrix for every head, and the window of the convolution.
  static std::vector<StateSpec> states(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<KimiDeltaAttention>> cases();
  static LinearRecurrenceInit recurrence(const Init& init);
  static CausalConv1d::Init convolution(const Init& init);

 protected:
  const Init init_;
};

}  // namespace fk
