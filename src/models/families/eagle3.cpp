// EAGLE-3: draft heads for a larger model. Two layouts: that of the package speculators, whose
// config.json has the layer in transformer_layer_config, and the older one, which is a config.json of Llama with
// draft_vocab_size and calls the layer midlayer.
#include "core/error.h"
#include "core/json.h"
#include "models/config_rope.h"
#include "models/family.h"
#include "models/in_quotes.h"
#include "ops/l4/eagle3_llama_for_causal_lm.h"

namespace fk {
namespace {

constexpr std::string_view kOlderLayout = "LlamaForCausalLMEagle3";
constexpr int64_t kMostFeatures = 64;

bool is_older_layout(const FamilyFields& fields) {
  const Json* names = fields.find("architectures");
  return names != nullptr && names->is_array() && !names->empty() && names->front() == kOlderLayout;
}

// Of the target, in the file's own place or in eagle_config, where some have them.
void read_target_layers(const FamilyFields& fields, Eagle3LlamaForCausalLM::Init& init) {
  const Json* list = fields.find("eagle_aux_hidden_state_layer_ids");
  const std::optional<JsonFields> nested = fields.object("eagle_config");
  if (list == nullptr && nested) list = nested->find("eagle_aux_hidden_state_layer_ids");
  if (list == nullptr) return;
  const bool usable = list->is_array() && !list->empty() && list->size() <= kMostFeatures;
  for (const Json& id : usable ? *list : Json::array()) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > 1 << 12) break;
    init.eagle_aux_hidden_state_layer_ids.push_back(id.get<int64_t>());
  }
  if (!usable || init.eagle_aux_hidden_state_layer_ids.size() != list->size())
    throw Error("{}: eagle_aux_hidden_state_layer_ids must be a list of layers of the target, as [2, 16, 29], not {}.",
                fields.what(), in_quotes(list->dump()));
  init.num_aux_hidden_states = std::ssize(init.eagle_aux_hidden_state_layer_ids);
}

void read_layer(const FamilyFields& fields, const std::string& type, Eagle3LlamaForCausalLM::Init& init) {
  read_decoder(fields, {}, init);
  if (init.num_hidden_layers != 1)
    throw Error("{}: EAGLE-3 heads of {} layers are not supported; only those of one are.", fields.what(),
                init.num_hidden_layers);
  if (type != "llama" && type != "qwen3")
    throw Error("{}: EAGLE-3 heads with a layer of {} are not supported; llama and qwen3 are.", fields.what(),
                in_quotes(type));
  init.qk_norm = type == "qwen3";
  read_rope(fields, 10000, init);
  // Where the flag is given it decides; a window beside it may be switched off.
  const bool has_window = fields.integer("sliding_window", 1, kMaxWindow).has_value();
  if (fields.boolean("use_sliding_window").value_or(has_window))
    throw Error("{}: EAGLE-3 heads with a sliding window are not supported.", fields.what());
  init.attention_bias = fields.boolean("attention_bias").value_or(false);
  init.mlp_bias = fields.boolean("mlp_bias").value_or(false);
  init.tie_word_embeddings = false;  // whatever the target has: the head is of another size
}

Eagle3LlamaForCausalLM::Init read_eagle3(const FamilyFields& fields) {
  Eagle3LlamaForCausalLM::Init init;
  if (std::optional<JsonFields> layer = fields.object("transformer_layer_config")) {
    const std::optional<std::string> type = layer->string("model_type");
    if (!type) throw Error("{} has no model_type; llama and qwen3 are known.", layer->what());
    read_layer(FamilyFields(*layer, fields.architecture), *type, init);
    if (fields.has("dtype") || fields.has("torch_dtype")) init.dtype = read_dtype(fields);
  } else {
    read_layer(fields, "llama", init);
  }
  if (is_older_layout(fields)) init.layer_name = "midlayer";
  init.draft_vocab_size = fields.integer("draft_vocab_size", 1, INT32_MAX).value_or(init.vocab_size);
  if (init.draft_vocab_size > init.vocab_size)
    throw Error("{}: draft_vocab_size {} is more than the vocabulary, which has {} tokens.", fields.what(),
                init.draft_vocab_size, init.vocab_size);
  init.target_hidden_size = fields.integer("target_hidden_size", 1, 1 << 20).value_or(init.hidden_size);
  read_target_layers(fields, init);
  if (init.features() == init.hidden_size)
    throw Error(
        "{}: hidden states of the target have {} elements together, as many as those of the head; that is not "
        "supported.",
        fields.what(), init.features());
  init.norm_before_residual = fields.boolean("norm_before_residual").value_or(false);
  for (const char* flag : {"norm_before_fc", "fc_norm", "norm_output", "parallel_drafting"}) refuse_flag(fields, flag);
  if (!init.weight_format.empty()) refuse_quantized(fields);
  return init;
}

const RegisterFamily<Eagle3LlamaForCausalLM, read_eagle3> kEagle3(
    {.name = "eagle3",
     .category = "draft-head",
     .model_type = "llama",
     .task = Task::kDraftHead,
     .parts_of = {{kOlderLayout, "llama"},
                  {"Eagle3Speculator", "speculator_model"},
                  {"Eagle3DraftModel", "speculator_model"}},
     .other_parts = {"t2d", "verifier_"}});

}  // namespace
}  // namespace fk
