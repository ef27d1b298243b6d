// The middle of a Mamba block for few tokens, in two launches: the convolution with x_proj, then dt_proj with the scan.
#pragma once

#include <string_view>

#include "ops/forward_context.h"
#include "ops/l2/mamba_mixer.h"

namespace fk::cuda {

struct MambaStep {
  View x, gate;  // [T, I], the two halves of in_proj's result
  View conv_state, ssm_state;
  View conv_weight;
  OptView conv_bias = {};
  View x_proj;   // [R + 2 N, I]
  View dt_proj;  // [I, R]
  View A_log, skip, dt_bias;
  // RMS norms of the time step, B and C: with weights, or none.
  bool norms = false;
  double norm_eps = 0;
  OptView dt_norm = {}, b_norm = {}, c_norm = {};
  View out;  // [T, I]
};

// Why blocks of such sizes are not supported; empty if they are.
std::string_view refuse_mamba_step(const MambaMixerInit& init);
// For all sequences of a batch.
void run_mamba_step(const MambaStep& step, Context& ctx);

}  // namespace fk::cuda
