// Llama 4, its language model: experts on all layers or on some, chunked attention, layers without a rotary embedding.
#include "core/error.h"
#include "core/json.h"
#include "models/config_experts.h"
#include "models/config_rope.h"
#include "models/family.h"
#include "models/in_quotes.h"
#include "ops/l4/llama4_for_causal_lm.h"

namespace fk {
namespace {

// A list with a flag for each layer; nothing where it is absent or empty.
std::optional<std::vector<uint8_t>> read_flags(const FamilyFields& fields, std::string_view key, int64_t layers) {
  const Json* list = fields.find(key);
  if (list == nullptr || (list->is_array() && list->empty())) return std::nullopt;
  std::vector<uint8_t> flags;
  bool valid = list->is_array() && static_cast<int64_t>(list->size()) == layers;
  for (size_t i = 0; valid && i < list->size(); ++i) {
    const Json& flag = (*list)[i];
    valid = flag.is_number_integer() && (flag == 0 || flag == 1);
    if (valid) flags.push_back(flag == 1);
  }
  if (!valid) throw Error("{}: {} must be a list with 0 or 1 for each of the {} layers.", fields.what(), key, layers);
  return flags;
}

std::vector<uint8_t> read_layers_with_rope(const FamilyFields& fields, int64_t layers) {
  int64_t interval = fields.integer("no_rope_layer_interval", 1, INT32_MAX).value_or(4);
  if (auto flags = read_flags(fields, "no_rope_layers", layers)) return *flags;
  std::vector<uint8_t> flags;
  for (int64_t i = 0; i < layers; ++i) flags.push_back((i + 1) % interval != 0);
  return flags;
}

std::vector<uint8_t> read_layers_with_experts(const FamilyFields& fields, int64_t layers) {
  std::vector<uint8_t> flags(static_cast<size_t>(layers), 0);
  int64_t step = fields.integer("interleave_moe_layer_step", 1, INT32_MAX).value_or(1);
  const Json* list = fields.find("moe_layers");
  if (list == nullptr) {
    for (int64_t i = step - 1; i < layers; i += step) flags[static_cast<size_t>(i)] = 1;
    return flags;
  }
  if (!list->is_array()) throw Error("{}: moe_layers must be a list of layers.", fields.what());
  for (const Json& layer : *list) {
    if (!layer.is_number_integer() || layer.get<int64_t>() < 0 || layer.get<int64_t>() >= layers)
      throw Error("{}: moe_layers holds {}; layers are numbered from 0 to {}.", fields.what(), layer.dump(),
                  layers - 1);
    flags[layer.get<size_t>()] = 1;
  }
  return flags;
}

// Layers with a rotary embedding, unless layer_types says otherwise.
std::vector<uint8_t> read_chunked_layers(const FamilyFields& fields, int64_t layers,
                                         const std::vector<uint8_t>& with_rope) {
  const Json* list = fields.find("layer_types");
  if (list == nullptr) return with_rope;
  if (!list->is_array() || static_cast<int64_t>(list->size()) != layers)
    throw Error("{}: layer_types must be a list with one entry for each of the {} layers.", fields.what(), layers);
  std::vector<uint8_t> flags;
  for (const Json& type : *list) {
    if (type != "chunked_attention" && type != "full_attention")
      throw Error("{}: layer_types holds {}; known are chunked_attention and full_attention.", fields.what(),
                  in_quotes(type.dump()));
    flags.push_back(type == "chunked_attention");
  }
  return flags;
}

Llama4ForCausalLM::Init read_llama4(const FamilyFields& fields) {
  Llama4ForCausalLM::Init init;
  read_decoder(fields,
               {.max_position_embeddings = 131072, .num_key_value_heads = 8, .head_dim = 128, .rms_norm_eps = 1e-5},
               init);
  read_rope(fields, 500000, init);
  init.attention_bias = fields.boolean("attention_bias").value_or(false);
  refuse_flag(fields, "mlp_bias");
  init.intermediate_size_mlp = fields.integer("intermediate_size_mlp", 1, 1 << 22).value_or(16384);
  ExpertCounts counts = read_expert_counts(fields, fields.has("num_experts") ? "num_experts" : "num_local_experts",
                                           {.experts = 16, .per_token = 1});
  if (counts.per_token != 1)
    throw Error("{}: {} with num_experts_per_tok {} is not supported; only 1 is.", fields.what(), fields.architecture,
                counts.per_token);
  init.num_local_experts = counts.experts;
  const int64_t layers = init.num_hidden_layers;
  init.layer_has_experts = read_layers_with_experts(fields, layers);
  init.layer_has_rope = read_layers_with_rope(fields, layers);
  init.layer_is_chunked = read_chunked_layers(fields, layers, init.layer_has_rope);
  if (fields.is_null("attention_chunk_size"))
    throw Error("{}: {} without attention_chunk_size is not supported; give its layer_types as full_attention.",
                fields.what(), fields.architecture);
  init.attention_chunk_size = fields.integer("attention_chunk_size", 1, INT32_MAX).value_or(8192);
  init.use_qk_norm = fields.boolean("use_qk_norm").value_or(true);
  init.attn_temperature_tuning = fields.boolean("attn_temperature_tuning").value_or(true);
  init.attn_scale = fields.real("attn_scale", 0, 1e6).value_or(0.1);
  init.floor_scale = fields.integer("floor_scale", 1, INT32_MAX).value_or(8192);
  return init;
}

std::vector<PackedModule> llama4_parts() {
  std::vector<PackedModule> packed = separate_projections();
  packed.push_back({"experts.w13.weight", {"experts.gate_up_proj"}, Stored::kTransposed});
  packed.push_back({"experts.w2.weight", {"experts.down_proj"}, Stored::kTransposed});
  return packed;
}

const RegisterFamily<Llama4ForCausalLM, read_llama4> kLlama4(
    {.name = "llama4",
     .model_type = "llama4_text",
     .packed = llama4_parts(),
     .parts_of = {{"Llama4ForConditionalGeneration", "llama4", "text_config"}},
     .part_prefix = "language_model.",
     .other_parts = {"vision_model.", "multi_modal_projector."}});

}  // namespace
}  // namespace fk
