// Falcon Mamba: Mamba with norms of the time step, B and C.
#include "models/config_mamba.h"
#include "ops/l4/falcon_mamba_for_causal_lm.h"

namespace fk {
namespace {

FalconMambaForCausalLM::Init read_falcon_mamba(const FamilyFields& fields) {
  FalconMambaForCausalLM::Init init;
  read_state_space(fields, {}, init);
  init.state_size = fields.integer("state_size", 1, 256).value_or(16);
  init.conv_kernel = fields.integer("conv_kernel", 2, CausalConv1d::kMaxWidth).value_or(4);
  init.time_step_rank = read_time_step_rank(fields, "time_step_rank", init.hidden_size);
  init.use_conv_bias = fields.boolean("use_conv_bias").value_or(true);
  init.use_bias = fields.boolean("use_bias").value_or(false);
  init.inner_norms = "plain";
  init.inner_norm_eps = fields.real("mixer_rms_eps", 1e-30, 1).value_or(1e-6);
  return init;
}

const RegisterFamily<FalconMambaForCausalLM, read_falcon_mamba> kFalconMamba({.name = "falcon_mamba",
                                                                              .model_type = "falcon_mamba",
                                                                              .packed = backbone_names()});

}  // namespace
}  // namespace fk
