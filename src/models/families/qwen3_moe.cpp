// Qwen 3 MoE: as Qwen 3, with experts on all layers or on some; a window on all layers where the config asks for one.
#include "models/config_experts.h"
#include "models/config_rope.h"
#include "models/family.h"
#include "ops/l4/qwen3_moe_for_causal_lm.h"

namespace fk {
namespace {

Qwen3MoeForCausalLM::Init read_qwen3_moe(const FamilyFields& fields) {
  Qwen3MoeForCausalLM::Init init;
  read_decoder(fields, {.max_position_embeddings = 32768, .num_key_value_heads = 4}, init);
  read_rope(fields, 10000, init);
  init.attention_bias = fields.boolean("attention_bias").value_or(false);
  refuse_flag(fields, "mlp_bias");
  read_expert_layers(fields, {.counts = {.experts = 128, .per_token = 8}, .moe_intermediate_size = 768},
                     init.num_hidden_layers, init);
  if (fields.boolean("use_sliding_window").value_or(false)) init.sliding_window = read_window(fields, 4096);
  return init;
}

const RegisterFamily<Qwen3MoeForCausalLM, read_qwen3_moe> kQwen3Moe({.name = "qwen3_moe",
                                                                     .model_type = "qwen3_moe",
                                                                     .packed = separate_experts()});

}  // namespace
}  // namespace fk
