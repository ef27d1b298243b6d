// Jamba: layers of attention among layers of Mamba, experts on some of them.
#include "core/error.h"
#include "models/config_experts.h"
#include "models/config_mamba.h"
#include "ops/l4/jamba_for_causal_lm.h"

namespace fk {
namespace {

// Which of every `period` layers has something.
void read_period(const FamilyFields& fields, const std::string& what, int64_t& period, int64_t& offset) {
  period = fields.integer(what + "_layer_period", 1, 1 << 12).value_or(period);
  offset = fields.integer(what + "_layer_offset", 0, 1 << 12).value_or(offset);
  if (offset >= period)
    throw Error("{}: {}_layer_offset must be less than {}_layer_period.", fields.what(), what, what);
}

JambaForCausalLM::Init read_jamba(const FamilyFields& fields) {
  JambaForCausalLM::Init init;
  read_decoder(fields, {.max_position_embeddings = 262144, .num_key_value_heads = 8}, init);
  ExpertCounts counts = read_expert_counts(fields, "num_experts", {.experts = 16, .per_token = 2});
  init.num_experts = counts.experts;
  init.num_experts_per_tok = counts.per_token;
  read_period(fields, "expert", init.expert_layer_period, init.expert_layer_offset);
  read_period(fields, "attn", init.attn_layer_period, init.attn_layer_offset);
  init.mamba_d_state = fields.integer("mamba_d_state", 1, 256).value_or(16);
  init.mamba_d_conv = fields.integer("mamba_d_conv", 2, CausalConv1d::kMaxWidth).value_or(4);
  init.mamba_expand = fields.integer("mamba_expand", 1, 64).value_or(2);
  init.mamba_dt_rank = read_time_step_rank(fields, "mamba_dt_rank", init.hidden_size);
  init.mamba_conv_bias = fields.boolean("mamba_conv_bias").value_or(true);
  init.mamba_proj_bias = fields.boolean("mamba_proj_bias").value_or(false);
  if (read_window(fields, 0) != 0) throw Error("{}: sliding_window is not supported.", fields.what());
  return init;
}

std::vector<PackedModule> jamba_parts() {
  std::vector<PackedModule> packed = separate_experts();
  packed.push_back({"feed_forward.gate.", {"feed_forward.router."}});
  packed.push_back({"model.norm.", {"model.final_layernorm."}});
  return packed;
}

const RegisterFamily<JambaForCausalLM, read_jamba> kJamba({.name = "jamba",
                                                           .model_type = "jamba",
                                                           .packed = jamba_parts()});

}  // namespace
}  // namespace fk
