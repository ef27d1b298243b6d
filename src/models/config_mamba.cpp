#include "models/config_mamba.h"

#include "core/error.h"
#include "core/json.h"
#include "models/in_quotes.h"

namespace fk {

void read_state_space(const FamilyFields& fields, const StateSpaceDefaults& defaults, DecoderModelInit& init) {
  auto size = [&](std::string_view key, int64_t most) {
    auto found = fields.integer(key, 1, most);
    if (!found) throw Error("{} has no {}.", fields.what(), key);
    return *found;
  };
  init.vocab_size = size("vocab_size", INT32_MAX);
  init.hidden_size = size("hidden_size", 1 << 20);
  init.num_hidden_layers = size("num_hidden_layers", 1 << 12);
  // int(expand * hidden_size) in transformers, which ignores intermediate_size.
  init.intermediate_size =
      static_cast<int64_t>(fields.real("expand", 1e-3, 64).value_or(2) * static_cast<double>(init.hidden_size));
  if (init.intermediate_size < 1) throw Error("{}: expand leaves no channels.", fields.what());
  init.max_position_embeddings =
      fields.integer("max_position_embeddings", 1, INT32_MAX).value_or(kContextWithoutPositions);
  init.rms_norm_eps = fields.real("layer_norm_epsilon", 1e-30, 1).value_or(1e-5);
  init.tie_word_embeddings = fields.boolean("tie_word_embeddings").value_or(defaults.tie_word_embeddings);
  init.dtype = read_dtype(fields);
  check_quantization(fields);
  std::string activation = fields.string("hidden_act").value_or("silu");
  if (activation != "silu" && activation != "swish")
    throw Error("{}: {} with activation {} is not supported; only silu is.", fields.what(), fields.architecture,
                in_quotes(activation));
}

int64_t read_time_step_rank(const FamilyFields& fields, std::string_view key, int64_t hidden_size) {
  const Json* found = fields.find(key);
  if (found == nullptr || *found == "auto") return (hidden_size + 15) / 16;
  return fields.integer(key, 1, 1 << 20).value();
}

void refuse_time_step_limit(const FamilyFields& fields) {
  const Json* limits = fields.find("time_step_limit");
  if (limits == nullptr) return;
  auto infinite = [](const Json& limit) {
    if (limit.is_object() && limit.contains("__float__")) return limit["__float__"] == "Infinity";
    return limit == "Infinity" || limit.is_null();
  };
  if (!limits->is_array() || limits->size() != 2 || !(*limits)[0].is_number() || (*limits)[0].get<double>() != 0 ||
      !infinite((*limits)[1]))
    throw Error("{}: time_step_limit {} is not supported; only (0, infinity) is.", fields.what(), limits->dump());
}

std::vector<PackedModule> backbone_names() {
  return {{"model.embed_tokens.", {"backbone.embeddings."}},
          {"model.norm.", {"backbone.norm_f."}},
          {"model.layers.", {"backbone.layers."}}};
}

}  // namespace fk
