// GatedDeltaNet: the recurrent block of Qwen3-Next: projections, a short convolution, the gated delta rule, a gated
// norm of heads, output projection.
#pragma once

#include "ops/contract.h"
#include "ops/l1/causal_conv1d.h"
#include "ops/l1/linear_recurrence.h"

namespace fk {

class GatedDeltaNet : public Operator {
 public:
  static constexpr std::string_view kName = "gated_delta_net";
  static constexpr std::string_view kClass = "GatedDeltaNet";
  static constexpr int kLevel = 2;

  struct Init {
    int64_t hidden_size = 0;
    int64_t num_k_heads = 0;
    int64_t num_v_heads = 0;  // a multiple of num_k_heads
    int64_t head_k_dim = 0;
    int64_t head_v_dim = 0;
    int64_t conv_kernel_size = 4;
    double norm_eps = 1e-6;  // of the norm of heads
    DType dtype = DType::kBF16;

    int64_t keys() const { return num_k_heads * head_k_dim; }
    int64_t values() const { return num_v_heads * head_v_dim; }

    template <class Visitor>
    void visit(Visitor&& v) {
      v("hidden_size", hidden_size);
      v("num_k_heads", num_k_heads);
      v("num_v_heads", num_v_heads);
      v("head_k_dim", head_k_dim);
      v("head_v_dim", head_v_dim);
      v("conv_kernel_size", conv_kernel_size);
      v("norm_eps", norm_eps);
      v("dtype", dtype);
    }
  };

  // hidden_states [T, D] -> out [T, D].
  static constexpr std::array kArgs{in("hidden_states"), out("out")};

  explicit GatedDeltaNet(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View hidden_states, View out) = 0;

  // A matrix for every head, and the window of the convolution.
  static std::vector<StateSpec> states(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<GatedDeltaNet>> cases();
  static LinearRecurrenceInit recurrence(const Init& init);
  static CausalConv1d::Init convolution(const Init& init);

 protected:
  const Init init_;
};

}  // namespace fk
