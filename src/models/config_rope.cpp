#include "models/config_rope.h"

#include "core/error.h"
#include "core/json.h"
#include "models/in_quotes.h"

namespace fk {
namespace {

// transformers writes "rope_type"; older files say "type".
std::string rope_type(const JsonFields& fields) {
  if (auto type = fields.string("rope_type")) return *type;
  return fields.string("type").value_or("default");
}

void refuse_partial(const JsonFields& fields) {
  if (fields.real("partial_rotary_factor", 0, 1).value_or(1) != 1)
    throw Error("{}: a partial_rotary_factor other than 1 is not supported.", fields.what());
}

template <class T>
T require(std::optional<T> value, std::string_view key, const JsonFields& fields) {
  if (!value) throw Error("{} has no {}.", fields.what(), key);
  return *value;
}

// `original_context`: the default of original_max_position_embeddings.
RopeScaling read_scaling(const JsonFields& fields, int64_t original_context) {
  RopeScaling result;
  result.type = rope_type(fields);
  if (result.type != "default" && result.type != "linear" && result.type != "llama3") {
    throw Error("{} asks for rope type {}; supported are default, linear and llama3.", fields.what(),
                in_quotes(result.type));
  }
  refuse_partial(fields);
  if (result.type == "default") return result;
  result.factor = require(fields.real("factor", 1, kMaxRopeFactor), "factor", fields);
  if (result.type == "linear") return result;
  result.low_freq_factor = require(fields.real("low_freq_factor", 1e-6, kMaxRopeFactor), "low_freq_factor", fields);
  result.high_freq_factor = require(fields.real("high_freq_factor", 1e-6, kMaxRopeFactor), "high_freq_factor", fields);
  result.original_max_position_embeddings =
      fields.integer("original_max_position_embeddings", 1, INT32_MAX).value_or(original_context);
  return result;
}

// One set of parameters for all layers.
void read_for_all_layers(const JsonFields& fields, const Family& family, CausalLMConfig& config) {
  auto rope = fields.object("rope_parameters");
  // If rope_scaling is not empty, it replaces rope_parameters completely, including its rope_theta.
  if (auto scaling = fields.object("rope_scaling"); scaling && !scaling->empty()) rope = scaling;
  if (!rope) return;
  if (rope->has("full_attention") || rope->has("sliding_attention"))
    throw Error("{}: {} has one set of rope_parameters for all layers.", fields.what(), family.architecture);
  config.rope_theta = rope->real("rope_theta", 1, kMaxRopeTheta).value_or(config.rope_theta);
  config.rope_scaling = read_scaling(*rope, config.max_position_embeddings);
  // At the top level it takes precedence over the one in the parameters.
  if (config.rope_scaling.type == "llama3")
    config.rope_scaling.original_max_position_embeddings =
        fields.integer("original_max_position_embeddings", 1, INT32_MAX)
            .value_or(config.rope_scaling.original_max_position_embeddings);
}

// Gemma 3: one set for global layers, one for sliding-window layers. rope_scaling is merged into the first.
void read_per_kind_of_layer(const JsonFields& fields, const Family& family, CausalLMConfig& config) {
  config.rope_local_base_freq = fields.real("rope_local_base_freq", 1, kMaxRopeTheta).value_or(10000);
  Json full = {{"rope_type", "default"}};
  std::string what = fmt::format("full_attention in rope_parameters in {}", fields.what());
  auto rope = fields.object("rope_parameters");
  if (rope) {
    bool nested = rope->has_key("full_attention") || rope->has_key("sliding_attention");
    if (!nested && !rope->empty())
      throw Error(
          "{}: {} has rope_parameters for each kind of layer; move them into full_attention and sliding_attention.",
          fields.what(), family.architecture);
    rope->object("full_attention");  // throws if it is not an object
    if (const Json* given = rope->find("full_attention")) full = *given;
    if (auto sliding = rope->object("sliding_attention")) {
      config.rope_local_base_freq = sliding->real("rope_theta", 1, kMaxRopeTheta).value_or(config.rope_local_base_freq);
      RopeScaling local = read_scaling(*sliding, config.max_position_embeddings);
      if (local.type != "default")
        throw Error("{}: rope type {} on sliding layers is not supported.", fields.what(), in_quotes(local.type));
    }
  }
  if (auto scaling = fields.object("rope_scaling"); scaling && !scaling->empty()) {
    if (rope && !rope->has("full_attention"))
      throw Error("{}: rope_scaling has no full_attention in rope_parameters that it could be merged into.",
                  fields.what());
    full.update(*fields.find("rope_scaling"));
    what = fmt::format("rope_scaling in {}", fields.what());
  }
  JsonFields global(full, what);
  config.rope_theta = global.real("rope_theta", 1, kMaxRopeTheta).value_or(config.rope_theta);
  config.rope_scaling = read_scaling(global, config.max_position_embeddings);
}

}  // namespace

// As transformers 5 reads both spellings, in any mixture (tools/golden/rope_configs.py).
void read_rope(const JsonFields& fields, const Family& family, CausalLMConfig& config) {
  config.rope_theta = fields.real("rope_theta", 1, kMaxRopeTheta).value_or(family.rope_theta);
  refuse_partial(fields);
  if (family.sliding == Sliding::kPattern)
    read_per_kind_of_layer(fields, family, config);
  else
    read_for_all_layers(fields, family, config);
}

}  // namespace fk
