// Qwen 1.5 and 2 MoE: as Qwen 2, with experts on all layers or on some, and one that all tokens use.
#include "models/config_experts.h"
#include "models/config_rope.h"
#include "models/family.h"
#include "ops/l4/qwen2_moe_for_causal_lm.h"

namespace fk {
namespace {

// Every other layer of the first max_window_layers, unlike in Qwen 2.
void read_windows_of_every_other_layer(const FamilyFields& fields, int64_t layers, SlidingLayers& sliding) {
  if (!fields.boolean("use_sliding_window").value_or(false)) return;
  sliding.sliding_window = read_window(fields, 4096);
  if (auto types = read_layer_types(fields, layers)) {
    sliding.layer_is_sliding = std::move(*types);
    return;
  }
  int64_t first_full = fields.integer("max_window_layers", 0, INT32_MAX).value_or(28);
  for (int64_t i = 0; i < layers; ++i) sliding.layer_is_sliding.push_back(i % 2 == 0 && i < first_full);
}

Qwen2MoeForCausalLM::Init read_qwen2_moe(const FamilyFields& fields) {
  Qwen2MoeForCausalLM::Init init;
  read_decoder(fields, {.max_position_embeddings = 32768, .num_key_value_heads = 16}, init);
  read_rope(fields, 10000, init);
  init.qkv_bias = fields.boolean("qkv_bias").value_or(true);
  refuse_flag(fields, "mlp_bias");
  read_expert_layers(fields, {.counts = {.experts = 60, .per_token = 4}, .moe_intermediate_size = 1408},
                     init.num_hidden_layers, init);
  init.shared_expert_intermediate_size = fields.integer("shared_expert_intermediate_size", 1, 1 << 22).value_or(5632);
  read_windows_of_every_other_layer(fields, init.num_hidden_layers, init);
  return init;
}

const RegisterFamily<Qwen2MoeForCausalLM, read_qwen2_moe> kQwen2Moe({.name = "qwen2_moe",
                                                                     .model_type = "qwen2_moe",
                                                                     .packed = separate_experts()});

}  // namespace
}  // namespace fk
