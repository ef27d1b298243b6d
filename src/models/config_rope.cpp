#include "models/config_rope.h"

#include <cmath>

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

constexpr std::string_view kPartial = "partial_rotary_factor";

void refuse_partial(const JsonFields& fields) {
  if (fields.real(kPartial, 0, 1).value_or(1) != 1)
    throw Error("{}: a partial_rotary_factor other than 1 is not supported.", fields.what());
}

template <class T>
T require(std::optional<T> value, std::string_view key, const JsonFields& fields) {
  if (!value) throw Error("{} has no {}.", fields.what(), key);
  return *value;
}

double logarithmic(double factor, double weight) { return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1; }

double read_attention_factor(const JsonFields& fields, double factor) {
  if (auto given = fields.real("attention_factor", 1e-6, kMaxRopeFactor)) return *given;
  double scale = fields.real("mscale", 0, kMaxRopeFactor).value_or(0),
         scale_all = fields.real("mscale_all_dim", 0, kMaxRopeFactor).value_or(0);
  if (scale != 0 && scale_all != 0) return logarithmic(factor, scale) / logarithmic(factor, scale_all);
  return logarithmic(factor, 1);
}

void read_yarn(const JsonFields& fields, int64_t original_context, RopeScaling& result) {
  auto not_zero = [&](std::string_view key, double otherwise) {  // zero means the default, as in transformers
    double value = fields.real(key, 0, kMaxRopeFactor).value_or(0);
    return value == 0 ? otherwise : value;
  };
  result.beta_fast = not_zero("beta_fast", 32);
  result.beta_slow = not_zero("beta_slow", 1);
  if (result.beta_fast < result.beta_slow)
    throw Error("{}: beta_fast {} must not be below beta_slow {}.", fields.what(), result.beta_fast, result.beta_slow);
  result.truncate = fields.boolean("truncate").value_or(true);
  result.attention_factor = read_attention_factor(fields, result.factor);
  result.original_max_position_embeddings =
      fields.integer("original_max_position_embeddings", 1, INT32_MAX).value_or(original_context);
}

// `original_context`: the default of original_max_position_embeddings.
RopeScaling read_scaling(const JsonFields& fields, int64_t original_context) {
  RopeScaling result;
  result.type = rope_type(fields);
  if (result.type != "default" && result.type != "linear" && result.type != "llama3" && result.type != "yarn") {
    throw Error("{} asks for rope type {}; supported are default, linear, llama3 and yarn.", fields.what(),
                in_quotes(result.type));
  }
  if (result.type == "default") return result;
  result.factor = require(fields.real("factor", 1, kMaxRopeFactor), "factor", fields);
  if (result.type == "linear") return result;
  if (result.type == "yarn") {
    read_yarn(fields, original_context, result);
    return result;
  }
  result.low_freq_factor = require(fields.real("low_freq_factor", 1e-6, kMaxRopeFactor), "low_freq_factor", fields);
  result.high_freq_factor = require(fields.real("high_freq_factor", 1e-6, kMaxRopeFactor), "high_freq_factor", fields);
  result.original_max_position_embeddings =
      fields.integer("original_max_position_embeddings", 1, INT32_MAX).value_or(original_context);
  if (result.high_freq_factor < result.low_freq_factor)
    throw Error("{}: high_freq_factor {} must not be below low_freq_factor {}.", fields.what(), result.high_freq_factor,
                result.low_freq_factor);
  return result;
}

// One set of parameters for all layers; returns it where the file has one.
std::optional<JsonFields> read_for_all_layers(const FamilyFields& fields, double default_theta,
                                              DecoderModelInit& init) {
  init.rope_theta = fields.real("rope_theta", 1, kMaxRopeTheta).value_or(default_theta);
  auto rope = fields.object("rope_parameters");
  // If rope_scaling is not empty, it replaces rope_parameters completely, including its rope_theta.
  if (auto scaling = fields.object("rope_scaling"); scaling && !scaling->empty()) rope = scaling;
  if (!rope) return rope;
  if (rope->has("full_attention") || rope->has("sliding_attention"))
    throw Error("{}: {} has one set of rope_parameters for all layers.", fields.what(), fields.architecture);
  init.rope_theta = rope->real("rope_theta", 1, kMaxRopeTheta).value_or(init.rope_theta);
  init.rope_scaling = read_scaling(*rope, init.max_position_embeddings);
  // At the top level it takes precedence over the one in the parameters.
  if (init.rope_scaling.type == "llama3" || init.rope_scaling.type == "yarn")
    init.rope_scaling.original_max_position_embeddings =
        fields.integer("original_max_position_embeddings", 1, INT32_MAX)
            .value_or(init.rope_scaling.original_max_position_embeddings);
  if (init.rope_scaling.type == "yarn" && init.rope_theta <= 1)
    throw Error("{}: rope_theta must be above 1 for rope type 'yarn', and is {}.", fields.what(), init.rope_theta);
  return rope;
}

}  // namespace

double yarn_attention_factor(double factor) { return logarithmic(factor, 1); }

// As transformers 5 reads both spellings, in any mixture (tools/golden/rope_configs.py).
void read_rope(const FamilyFields& fields, double default_theta, DecoderModelInit& init) {
  refuse_partial(fields);
  if (auto rope = read_for_all_layers(fields, default_theta, init)) refuse_partial(*rope);
}

int64_t read_partial_rope(const FamilyFields& fields, double default_theta, double default_factor,
                          DecoderModelInit& init) {
  double factor = fields.real(kPartial, 0, 1).value_or(default_factor);
  if (auto rope = read_for_all_layers(fields, default_theta, init))
    factor = rope->real(kPartial, 0, 1).value_or(factor);
  auto rotated = static_cast<int64_t>(static_cast<double>(init.head_dim) * factor);
  if (rotated < 2 || rotated % 2 != 0)
    throw Error("{}: {} {} of head_dim {} rotates {} elements, which must be an even number of at least 2.",
                fields.what(), kPartial, factor, init.head_dim, rotated);
  return rotated;
}

double read_rope_by_kind_of_layer(const FamilyFields& fields, double default_theta, double default_local_theta,
                                  DecoderModelInit& init) {
  init.rope_theta = fields.real("rope_theta", 1, kMaxRopeTheta).value_or(default_theta);
  refuse_partial(fields);
  double local_theta = fields.real("rope_local_base_freq", 1, kMaxRopeTheta).value_or(default_local_theta);
  Json full = {{"rope_type", "default"}};
  std::string what = fmt::format("full_attention in rope_parameters in {}", fields.what());
  auto rope = fields.object("rope_parameters");
  if (rope) {
    bool nested = rope->has_key("full_attention") || rope->has_key("sliding_attention");
    if (!nested && !rope->empty())
      throw Error(
          "{}: {} has rope_parameters for each kind of layer; move them into full_attention and sliding_attention.",
          fields.what(), fields.architecture);
    rope->refuse_other_keys({"full_attention", "sliding_attention"});
    rope->object("full_attention");  // throws if it is not an object
    if (const Json* given = rope->find("full_attention")) full = *given;
    if (auto sliding = rope->object("sliding_attention")) {
      local_theta = sliding->real("rope_theta", 1, kMaxRopeTheta).value_or(local_theta);
      RopeScaling local = read_scaling(*sliding, init.max_position_embeddings);
      refuse_partial(*sliding);
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
  init.rope_theta = global.real("rope_theta", 1, kMaxRopeTheta).value_or(init.rope_theta);
  init.rope_scaling = read_scaling(global, init.max_position_embeddings);
  if (init.rope_scaling.type == "yarn")
    throw Error("{}: {} with rope type 'yarn' is not supported; default, linear and llama3 are.", what,
                fields.architecture);
  refuse_partial(global);
  return local_theta;
}

}  // namespace fk
