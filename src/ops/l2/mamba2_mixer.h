// Mamba2Mixer: the block of Mamba 2: one projection for gate, input, B, C and time steps, a short convolution, the SSD
// scan, a gated norm, a projection.
#pragma once

#include "ops/l1/causal_conv1d.h"
#include "ops/l1/rms_norm_gated.h"
#include "ops/l1/ssd_scan.h"
#include "ops/op.h"

namespace fk {

struct Mamba2MixerInit {
  int64_t hidden_size = 0;
  int64_t num_heads = 0;
  int64_t head_dim = 0;
  int64_t state_size = 0;
  int64_t n_groups = 1;
  int64_t conv_kernel = 4;
  bool use_conv_bias = true;
  bool use_bias = false;        // of in_proj and out_proj
  int64_t norm_group_size = 0;  // of the gated norm; 0: all channels
  double norm_eps = 1e-5;
  DType dtype = DType::kBF16;

  int64_t intermediate_size() const { return num_heads * head_dim; }
  int64_t conv_dim() const { return intermediate_size() + 2 * n_groups * state_size; }

  template <class Visitor>
  void visit(Visitor&& v) {
    v("hidden_size", hidden_size);
    v("num_heads", num_heads);
    v("head_dim", head_dim);
    v("state_size", state_size);
    v("n_groups", n_groups);
    v("conv_kernel", conv_kernel);
    v("use_conv_bias", use_conv_bias);
    v("use_bias", use_bias);
    v("norm_group_size", norm_group_size);
    v("norm_eps", norm_eps);
    v("dtype", dtype);
  }
};

class Mamba2Mixer : public Operator {
 public:
  static constexpr std::string_view kName = "mamba2_mixer";
  static constexpr std::string_view kClass = "Mamba2Mixer";
  static constexpr int kLevel = 2;
  using Init = Mamba2MixerInit;

  // hidden_states [T, D] -> out [T, D]. The batch is the context's.
  static constexpr std::array kArgs{in("hidden_states"), out("out")};

  explicit Mamba2Mixer(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View hidden_states, View out) = 0;

  static CausalConv1d::Init convolution(const Init& init);
  static SSDScan::Init scan(const Init& init);
  static RMSNormGated::Init gated_norm(const Init& init);
  // The window of the convolution and the state of the scan.
  static std::vector<StateSpec> states(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<Mamba2Mixer>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
