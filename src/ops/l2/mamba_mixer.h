// MambaMixer: the block of Mamba: a projection, a short convolution, the selective scan, a projection.
#pragma once

#include "ops/l1/causal_conv1d.h"
#include "ops/l1/selective_scan.h"
#include "ops/op.h"

namespace fk {

struct MambaMixerInit {
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;  // I, channels of the scan
  int64_t state_size = 0;         // N
  int64_t conv_kernel = 4;
  int64_t time_step_rank = 0;  // R
  bool use_conv_bias = true;
  bool use_bias = false;  // of in_proj and out_proj
  // Of the time step, B and C, before they are used: none; "weighted" as Jamba has them; "plain" as Falcon Mamba does.
  std::string inner_norms = {};
  double inner_norm_eps = 1e-6;
  DType dtype = DType::kBF16;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("hidden_size", hidden_size);
    v("intermediate_size", intermediate_size);
    v("state_size", state_size);
    v("conv_kernel", conv_kernel);
    v("time_step_rank", time_step_rank);
    v("use_conv_bias", use_conv_bias);
    v("use_bias", use_bias);
    v("inner_norms", inner_norms);
    v("inner_norm_eps", inner_norm_eps);
    v("dtype", dtype);
  }
};

class MambaMixer : public Operator {
 public:
  static constexpr std::string_view kName = "mamba_mixer";
  static constexpr std::string_view kClass = "MambaMixer";
  static constexpr int kLevel = 2;
  using Init = MambaMixerInit;

  // hidden_states [T, D] -> out [T, D]. The batch is the context's.
  static constexpr std::array kArgs{in("hidden_states"), out("out")};

  explicit MambaMixer(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View hidden_states, View out) = 0;

  static CausalConv1d::Init convolution(const Init& init);
  static SelectiveScan::Init scan(const Init& init);
  // The window of the convolution and the state of the scan.
  static std::vector<StateSpec> states(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<MambaMixer>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
