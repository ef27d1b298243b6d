// Qwen3-Next: gated delta nets, gated attention on every fourth layer, experts with a shared one.
#include "core/error.h"
#include "core/json.h"
#include "models/config_experts.h"
#include "models/config_rope.h"
#include "models/family.h"
#include "models/in_quotes.h"
#include "ops/l4/qwen3_next_for_causal_lm.h"

namespace fk {
namespace {

// layer_types, or every full_attention_interval-th layer attends.
std::vector<uint8_t> read_linear_layers(const FamilyFields& fields, int64_t layers) {
  std::vector<uint8_t> linear;
  const Json* list = fields.find("layer_types");
  if (list == nullptr || list->is_null()) {
    int64_t interval = fields.integer("full_attention_interval", 1, INT32_MAX).value_or(4);
    for (int64_t i = 0; i < layers; ++i) linear.push_back((i + 1) % interval != 0);
    return linear;
  }
  if (!list->is_array() || static_cast<int64_t>(list->size()) != layers)
    throw Error("{}: layer_types must be a list with one entry for each of the {} layers.", fields.what(), layers);
  for (const Json& type : *list) {
    if (type != "linear_attention" && type != "full_attention")
      throw Error("{}: layer_types holds {}; known are full_attention and linear_attention.", fields.what(),
                  in_quotes(type.dump()));
    linear.push_back(type == "linear_attention");
  }
  return linear;
}

Qwen3NextForCausalLM::Init read_qwen3_next(const FamilyFields& fields) {
  Qwen3NextForCausalLM::Init init;
  read_decoder(fields, {.max_position_embeddings = 32768, .num_key_value_heads = 2, .head_dim = 256}, init);
  init.rotary_dim = read_partial_rope(fields, 10000, 0.25, init);
  init.attention_bias = fields.boolean("attention_bias").value_or(false);
  refuse_flag(fields, "mlp_bias");
  read_expert_layers(fields, {.counts = {.experts = 512, .per_token = 10}, .moe_intermediate_size = 512},
                     init.num_hidden_layers, init);
  init.norm_topk_prob = fields.boolean("norm_topk_prob").value_or(true);
  init.shared_expert_intermediate_size = fields.integer("shared_expert_intermediate_size", 1, 1 << 22).value_or(512);
  init.layer_is_linear = read_linear_layers(fields, init.num_hidden_layers);
  auto size = [&](std::string_view key, int64_t most, int64_t fallback) {
    return fields.integer(key, 1, most).value_or(fallback);
  };
  init.linear_key_head_dim = size("linear_key_head_dim", 512, 128);
  init.linear_value_head_dim = size("linear_value_head_dim", 1 << 12, 128);
  init.linear_num_key_heads = size("linear_num_key_heads", 1 << 12, 16);
  init.linear_num_value_heads = size("linear_num_value_heads", 1 << 12, 32);
  init.linear_conv_kernel_dim = fields.integer("linear_conv_kernel_dim", 2, 8).value_or(4);
  if (init.linear_num_value_heads % init.linear_num_key_heads != 0)
    throw Error("{}: linear_num_value_heads {} must be a multiple of linear_num_key_heads {}.", fields.what(),
                init.linear_num_value_heads, init.linear_num_key_heads);
  return init;
}

// The layer that predicts a second token is not used.
const RegisterFamily<Qwen3NextForCausalLM, read_qwen3_next> kQwen3Next({.name = "qwen3_next",
                                                                        .model_type = "qwen3_next",
                                                                        .norm_offset = 0,
                                                                        .packed = separate_experts(),
                                                                        .other_parts = {"mtp."}});

}  // namespace
}  // namespace fk
