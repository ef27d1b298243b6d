// Gemma 4, its language model: sliding and global layers with heads of different sizes, with or without experts beside
// the feed-forward blocks.
#include "core/error.h"
#include "core/json.h"
#include "models/config_experts.h"
#include "models/config_rope.h"
#include "models/family.h"
#include "models/in_quotes.h"
#include "ops/l4/gemma4_for_causal_lm.h"

namespace fk {
namespace {

constexpr int64_t kMaxHeads = 1 << 12, kMaxHeadDim = 1 << 12;

std::vector<uint8_t> read_sliding_layers(const FamilyFields& fields, int64_t layers) {
  if (std::optional<std::vector<uint8_t>> flags = read_layer_types(fields, layers)) {
    if (flags->back() != 0)
      throw Error("{}: the last of the layer_types of {} must be full_attention.", fields.what(), fields.architecture);
    return *flags;
  }
  std::vector<uint8_t> flags;
  for (int64_t i = 0; i < layers; ++i) flags.push_back((i + 1) % 6 != 0 && i + 1 < layers);
  return flags;
}

// What transformers 5.17 writes: head_dim and num_key_value_heads of layers that differ from the others, by number.
void read_layer_overrides(const FamilyFields& fields, const std::vector<uint8_t>& sliding,
                          Gemma4ForCausalLM::Init& init) {
  JsonFields all = *fields.object("per_layer_config");
  init.global_head_dim = init.head_dim;
  init.num_global_key_value_heads = init.num_key_value_heads;
  bool first = true;
  size_t read = 0;
  for (size_t i = 0; i < sliding.size(); ++i) {
    std::optional<JsonFields> layer = all.object(std::to_string(i));
    if (layer) ++read;
    if (sliding[i] != 0) {
      if (layer && !layer->empty())
        throw Error("{}: per_layer_config changes layer {}, which slides; only full_attention layers may differ.",
                    fields.what(), i);
      continue;
    }
    int64_t head_dim = init.head_dim, kv_heads = init.num_key_value_heads;
    if (layer) {
      for (const auto& [key, value] : all.find(std::to_string(i))->items())
        if (key != "head_dim" && key != "num_key_value_heads")
          throw Error("{}: per_layer_config with {} is not supported; head_dim and num_key_value_heads are.",
                      fields.what(), in_quotes(key));
      head_dim = layer->integer("head_dim", 2, kMaxHeadDim).value_or(head_dim);
      kv_heads = layer->integer("num_key_value_heads", 1, kMaxHeads).value_or(kv_heads);
    }
    if (!first && (head_dim != init.global_head_dim || kv_heads != init.num_global_key_value_heads))
      throw Error("{}: per_layer_config must be the same for all full_attention layers.", fields.what());
    init.global_head_dim = head_dim;
    init.num_global_key_value_heads = kv_heads;
    first = false;
  }
  if (read != fields.find("per_layer_config")->size())
    throw Error("{}: per_layer_config must have numbers of layers, from 0 to {}, as its keys.", fields.what(),
                sliding.size() - 1);
}

void read_global_heads(const FamilyFields& fields, const std::vector<uint8_t>& sliding, Gemma4ForCausalLM::Init& init) {
  init.attention_k_eq_v = fields.boolean("attention_k_eq_v").value_or(false);
  if (fields.has("per_layer_config")) {
    read_layer_overrides(fields, sliding, init);
  } else {
    init.global_head_dim = fields.integer("global_head_dim", 2, kMaxHeadDim).value_or(512);
    // transformers applies it only where values are keys.
    auto kv_heads = fields.integer("num_global_key_value_heads", 1, kMaxHeads);
    init.num_global_key_value_heads =
        init.attention_k_eq_v ? kv_heads.value_or(init.num_key_value_heads) : init.num_key_value_heads;
  }
  if (init.global_head_dim % 2 != 0)
    throw Error("{}: global_head_dim must be even to be rotated, and is {}.", fields.what(), init.global_head_dim);
  if (init.num_attention_heads % init.num_global_key_value_heads != 0)
    throw Error("{}: num_attention_heads {} must be a multiple of num_global_key_value_heads {}.", fields.what(),
                init.num_attention_heads, init.num_global_key_value_heads);
}

void read_rope_of_layers(const FamilyFields& fields, Gemma4ForCausalLM::Init& init) {
  init.rope_theta = 1e6;
  init.rope_scaling = {.type = "proportional", .partial_rotary_factor = 0.25};
  auto rope = fields.object("rope_parameters");
  if (!rope) return;
  std::optional<JsonFields> full = rope->object("full_attention"), sliding = rope->object("sliding_attention");
  if (!full || !sliding)
    throw Error("{}: {} needs rope_parameters for full_attention and sliding_attention.", fields.what(),
                fields.architecture);
  auto type_of = [](const JsonFields& of_layers) { return of_layers.string("rope_type").value_or("default"); };
  if (type_of(*sliding) != "default")
    throw Error("{}: rope type {} on sliding layers is not supported.", fields.what(), in_quotes(type_of(*sliding)));
  init.rope_local_base_freq = sliding->real("rope_theta", 1, kMaxRopeTheta).value_or(10000);
  init.rope_theta = full->real("rope_theta", 1, kMaxRopeTheta).value_or(1e6);
  init.rope_scaling = {.type = type_of(*full)};
  double share = full->real("partial_rotary_factor", 0, 1).value_or(1);
  if (init.rope_scaling.type == "proportional") {
    init.rope_scaling.factor = full->real("factor", 1e-6, kMaxRopeFactor).value_or(1);
    init.rope_scaling.partial_rotary_factor = share;
  } else if (init.rope_scaling.type != "default") {
    throw Error("{} asks for rope type {}; {} supports default and proportional.", full->what(),
                in_quotes(init.rope_scaling.type), fields.architecture);
  } else if (share != 1) {
    throw Error("{}: a partial_rotary_factor is for the rope type proportional.", full->what());
  }
}

void read_experts(const FamilyFields& fields, Gemma4ForCausalLM::Init& init) {
  if (!fields.boolean("enable_moe_block").value_or(false)) return;
  auto required = [&](std::string_view key, int64_t most) {
    auto value = fields.integer(key, 1, most);
    if (!value) throw Error("{} has no {}.", fields.what(), key);
    return *value;
  };
  init.num_experts = required("num_experts", kMaxExperts);
  init.top_k_experts = required("top_k_experts", kMaxExperts);
  init.moe_intermediate_size = required("moe_intermediate_size", 1 << 22);
  if (init.top_k_experts > init.num_experts)
    throw Error("{}: top_k_experts {} must not be more than num_experts {}.", fields.what(), init.top_k_experts,
                init.num_experts);
}

void refuse_other_parts(const FamilyFields& fields) {
  auto count = [&](std::string_view key, int64_t otherwise) {
    return fields.integer(key, 0, INT32_MAX).value_or(otherwise);
  };
  // 256 is the default of transformers' class: a model without it must say so.
  if (count("hidden_size_per_layer_input", 256) != 0)
    throw Error("{}: {} with embeddings of each layer is not supported; hidden_size_per_layer_input must be 0.",
                fields.what(), fields.architecture);
  if (count("num_kv_shared_layers", 0) != 0)
    throw Error("{}: {} with layers that share keys and values is not supported; num_kv_shared_layers must be 0.",
                fields.what(), fields.architecture);
  refuse_flag(fields, "use_double_wide_mlp");
  // "vision" changes only what tokens of images see.
  if (auto direction = fields.string("use_bidirectional_attention"); direction && *direction != "vision")
    throw Error("{}: use_bidirectional_attention {} is not supported; the model must be causal.", fields.what(),
                in_quotes(*direction));
}

Gemma4ForCausalLM::Init read_gemma4(const FamilyFields& fields) {
  Gemma4ForCausalLM::Init init;
  read_decoder(fields,
               {.max_position_embeddings = 131072,
                .num_key_value_heads = 4,
                .head_dim = 256,
                .tie_word_embeddings = true,
                .activation = "gelu_pytorch_tanh",
                .own_soft_cap_and_direction = true},
               init);
  refuse_other_parts(fields);
  read_rope_of_layers(fields, init);
  init.attention_bias = fields.boolean("attention_bias").value_or(false);
  std::vector<uint8_t> sliding = read_sliding_layers(fields, init.num_hidden_layers);
  read_global_heads(fields, sliding, init);
  init.sliding_window = read_window(fields, 512);
  if (init.sliding_window == 0)
    throw Error("{}: {} without a sliding_window is not supported.", fields.what(), fields.architecture);
  init.layer_is_sliding = std::move(sliding);
  read_experts(fields, init);
  init.final_logit_softcapping = fields.real("final_logit_softcapping", 1e-3, 1e6).value_or(0);
  return init;
}

std::vector<PackedModule> gemma4_parts() {
  std::vector<PackedModule> packed = separate_projections();
  packed.push_back({"qk_proj", {"q_proj", "k_proj"}});
  packed.push_back({"moe.router.norm.weight", {"router.scale"}});
  packed.push_back({"moe.router.proj.weight", {"router.proj.weight"}});
  packed.push_back({"moe.router.scale_weights.weight", {"router.per_expert_scale"}});
  packed.push_back({"moe.experts.w13.weight", {"experts.gate_up_proj"}});
  packed.push_back({"moe.experts.w2.weight", {"experts.down_proj"}});
  packed.push_back({"layer_scalar.weight", {"layer_scalar"}});
  return packed;
}

const RegisterFamily<Gemma4ForCausalLM, read_gemma4> kGemma4(
    {.name = "gemma4",
     .model_type = "gemma4_text",
     .packed = gemma4_parts(),
     .parts_of = {{"Gemma4ForConditionalGeneration", "gemma4", "text_config"}},
     .part_prefix = "model.language_model.",
     .other_parts = {"model.vision_tower.", "model.embed_vision.", "model.audio_tower.", "model.embed_audio."}});

}  // namespace
}  // namespace fk
