// Mamba: layers of selective state spaces, without attention and without positions.
#include "models/config_mamba.h"
#include "ops/l4/mamba_for_causal_lm.h"

namespace fk {
namespace {

MambaForCausalLM::Init read_mamba(const FamilyFields& fields) {
  MambaForCausalLM::Init init;
  read_state_space(fields, {}, init);
  init.state_size = fields.integer("state_size", 1, 256).value_or(16);
  init.conv_kernel = fields.integer("conv_kernel", 2, CausalConv1d::kMaxWidth).value_or(4);
  init.time_step_rank = read_time_step_rank(fields, "time_step_rank", init.hidden_size);
  init.use_conv_bias = fields.boolean("use_conv_bias").value_or(true);
  init.use_bias = fields.boolean("use_bias").value_or(false);
  return init;
}

const RegisterFamily<MambaForCausalLM, read_mamba> kMamba({.name = "mamba",
                                                           .model_type = "mamba",
                                                           .packed = backbone_names()});

}  // namespace
}  // namespace fk
