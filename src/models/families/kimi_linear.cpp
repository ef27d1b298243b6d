// Kimi-Linear: Kimi delta attention, latent attention without a rotary embedding on every few layers, experts.
#include <algorithm>

#include "core/error.h"
#include "core/json.h"
#include "models/config_experts.h"
#include "models/config_latent.h"
#include "models/family.h"
#include "models/in_quotes.h"
#include "ops/l4/kimi_linear_for_causal_lm.h"

namespace fk {
namespace {

constexpr int64_t kMaxKdaHeads = 1 << 12, kMaxKdaHead = 512;

// A list of layers in linear_attn_config, numbered from 1.
void mark_layers(const JsonFields& config, std::string_view key, int value, std::vector<int>& marks) {
  const Json* list = config.find(key);
  if (list == nullptr || !list->is_array())
    throw Error("{} must have the lists full_attn_layers and kda_layers.", config.what());
  for (const Json& layer : *list) {
    const auto last = static_cast<int64_t>(marks.size());
    if (!layer.is_number_integer() || layer.get<int64_t>() < 1 || layer.get<int64_t>() > last)
      throw Error("{}: {} holds {}; layers are numbered from 1 to {}.", config.what(), key, layer.dump(), last);
    int& mark = marks[static_cast<size_t>(layer.get<int64_t>() - 1)];
    if (mark >= 0) throw Error("{}: layer {} is listed twice.", config.what(), layer.dump());
    mark = value;
  }
}

// One entry per layer of a list of words, of which `first` gives 1 and `second` 0.
std::vector<uint8_t> read_layer_words(const FamilyFields& fields, std::string_view key, std::string_view first,
                                      std::string_view second, int64_t layers) {
  const Json* list = fields.find(key);
  if (!list->is_array() || static_cast<int64_t>(list->size()) != layers)
    throw Error("{}: {} must be a list with one entry for each of the {} layers.", fields.what(), key, layers);
  std::vector<uint8_t> result;
  for (const Json& word : *list) {
    if (word != first && word != second)
      throw Error("{}: {} holds {}; known are {} and {}.", fields.what(), key, in_quotes(word.dump()), first, second);
    result.push_back(word == first);
  }
  return result;
}

// transformers writes layer_types, the published checkpoint has lists in linear_attn_config.
std::vector<uint8_t> read_kda_layers(const FamilyFields& fields, int64_t layers) {
  if (fields.has("layer_types"))
    return read_layer_words(fields, "layer_types", "linear_attention", "full_attention", layers);
  auto config = fields.object("linear_attn_config");
  if (!config)
    throw Error("{} must say which layers are linear: it has neither linear_attn_config nor layer_types.",
                fields.what());
  std::vector<int> marks(static_cast<size_t>(layers), -1);
  mark_layers(*config, "full_attn_layers", 0, marks);
  mark_layers(*config, "kda_layers", 1, marks);
  if (auto at = std::find(marks.begin(), marks.end(), -1); at != marks.end())
    throw Error("{}: layer {} is in neither full_attn_layers nor kda_layers.", config->what(), at - marks.begin() + 1);
  return {marks.begin(), marks.end()};
}

int64_t read_dense_layers(const FamilyFields& fields, int64_t layers) {
  if (!fields.has("mlp_layer_types")) return fields.integer("first_k_dense_replace", 0, INT32_MAX).value_or(1);
  std::vector<uint8_t> dense = read_layer_words(fields, "mlp_layer_types", "dense", "sparse", layers);
  if (!std::is_sorted(dense.rbegin(), dense.rend()))
    throw Error("{}: mlp_layer_types must have its dense layers before the others.", fields.what());
  return std::count(dense.begin(), dense.end(), 1);
}

void read_kimi_experts(const FamilyFields& fields, GroupedExperts& experts, int64_t layers) {
  auto count = [&](std::string_view key, std::string_view other, int64_t fallback) {
    return fields.integer(fields.has(other) ? other : key, 1, kMaxExperts).value_or(fallback);
  };
  experts.n_routed_experts = count("num_experts", "num_local_experts", 256);
  experts.num_experts_per_tok = count("num_experts_per_token", "num_experts_per_tok", 8);
  experts.n_group = count("num_expert_group", "n_group", 1);
  experts.topk_group = fields.integer("topk_group", 1, kMaxExperts).value_or(1);
  experts.n_shared_experts = count("num_shared_experts", "n_shared_experts", 1);
  experts.moe_intermediate_size = fields.integer("moe_intermediate_size", 1, 1 << 22).value_or(1024);
  experts.norm_topk_prob = fields.boolean("moe_renormalize").value_or(true);
  experts.routed_scaling_factor = fields.real("routed_scaling_factor", 1e-6, 1e6).value_or(2.446);
  experts.first_k_dense_replace = read_dense_layers(fields, layers);
  check_groups(fields, experts);
  if (auto scores = fields.string("moe_router_activation_func"); scores && *scores != "sigmoid")
    throw Error("{}: moe_router_activation_func {} is not supported; only sigmoid is.", fields.what(),
                in_quotes(*scores));
  if (fields.integer("moe_layer_freq", 1, INT32_MAX).value_or(1) != 1)
    throw Error("{}: moe_layer_freq must be 1, so that all layers behind the dense ones have experts.", fields.what());
  if (!fields.boolean("use_grouped_topk").value_or(true) && experts.n_group > 1)
    throw Error("{}: use_grouped_topk must be true where experts have groups.", fields.what());
}

KimiLinearForCausalLM::Init read_kimi_linear(const FamilyFields& fields) {
  KimiLinearForCausalLM::Init init;
  read_latent_sizes(fields, {}, init);
  // Published files have no q_lora_rank or null; transformers writes null.
  if (!fields.has("q_lora_rank")) init.q_lora_rank = 0;
  read_decoder(fields, {.max_position_embeddings = 1048576, .head_dim = 2, .rms_norm_eps = 1e-5}, init);
  init.max_position_embeddings =
      fields.integer("model_max_length", 1, INT32_MAX).value_or(init.max_position_embeddings);
  init.head_dim = init.qk_rope_head_dim;
  if (init.num_key_value_heads != init.num_attention_heads)
    throw Error("{}: {} has keys of its own for every head, so num_key_value_heads {} must be num_attention_heads {}.",
                fields.what(), fields.architecture, init.num_key_value_heads, init.num_attention_heads);
  if (!fields.boolean("mla_use_nope").value_or(true))
    throw Error("{}: mla_use_nope must be true; Kimi-Linear with rotated keys is not supported.", fields.what());
  init.layer_is_linear = read_kda_layers(fields, init.num_hidden_layers);
  const auto linear = fields.object("linear_attn_config");
  auto size = [&](std::string_view nested, std::string_view key, int64_t least, int64_t most, int64_t fallback) {
    auto found = linear ? linear->integer(nested, least, most) : std::nullopt;
    if (!found) found = fields.integer(key, least, most);
    return found.value_or(fallback);
  };
  init.linear_head_dim = size("head_dim", "linear_head_dim", 1, kMaxKdaHead, 128);
  init.linear_num_heads = size("num_heads", "linear_num_heads", 1, kMaxKdaHeads, 32);
  init.linear_conv_kernel_dim = size("short_conv_kernel_size", "linear_conv_kernel_dim", 2, CausalConv1d::kMaxWidth, 4);
  read_kimi_experts(fields, init, init.num_hidden_layers);
  return init;
}

std::vector<PackedModule> kimi_linear_parts() {
  std::vector<PackedModule> packed = separate_projections();
  packed.push_back({"in_proj", {"q_proj", "k_proj", "v_proj", "f_a_proj", "g_a_proj", "b_proj"}});
  packed.push_back({"conv1d", {"q_conv1d", "k_conv1d", "v_conv1d"}, Stored::kEqualParts});
  packed.push_back({"experts.w13", {"experts.{e}.w1", "experts.{e}.w3"}});
  packed.push_back({"experts.w2", {"experts.{e}.w2"}});
  return packed;
}

// transformers 5.22 writes the feed-forward block of dense layers, too, under the name of the blocks with experts.
const RegisterFamily<KimiLinearForCausalLM, read_kimi_linear> kKimiLinear({.name = "kimi_linear",
                                                                           .model_type = "kimi_linear",
                                                                           .packed = kimi_linear_parts(),
                                                                           .second_names = {
                                                                               {".mlp.", ".block_sparse_moe."}}});

}  // namespace
}  // namespace fk
