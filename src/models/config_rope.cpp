#include "models/config_rope.h"

#include "core/error.h"
#include "models/in_quotes.h"

namespace fk {
namespace {

// transformers writes "rope_type"; older files say "type".
std::string rope_type(const JsonFields& fields) {
  if (auto type = fields.string("rope_type")) return *type;
  return fields.string("type").value_or("default");
}

template <class T>
T require(std::optional<T> value, std::string_view key, const JsonFields& fields) {
  if (!value) throw Error("{} has no {}.", fields.what(), key);
  return *value;
}

RopeScaling read_scaling(const JsonFields& fields) {
  RopeScaling result;
  result.type = rope_type(fields);
  if (result.type != "default" && result.type != "linear" && result.type != "llama3") {
    throw Error("{} asks for rope type {}; supported are default, linear and llama3.", fields.what(),
                in_quotes(result.type));
  }
  if (fields.real("partial_rotary_factor", 0, 1).value_or(1) != 1)
    throw Error("{}: a partial_rotary_factor other than 1 is not supported.", fields.what());
  if (result.type == "default") return result;
  result.factor = require(fields.real("factor", 1, kMaxRopeFactor), "factor", fields);
  if (result.type == "linear") return result;
  result.low_freq_factor = require(fields.real("low_freq_factor", 1e-6, kMaxRopeFactor), "low_freq_factor", fields);
  result.high_freq_factor = require(fields.real("high_freq_factor", 1e-6, kMaxRopeFactor), "high_freq_factor", fields);
  result.original_max_position_embeddings = require(fields.integer("original_max_position_embeddings", 1, INT32_MAX),
                                                    "original_max_position_embeddings", fields);
  return result;
}

}  // namespace

void read_rope(const JsonFields& fields, const Family& family, CausalLMConfig& config) {
  bool has_local = family.sliding == Sliding::kPattern;
  // Transformers 4: one theta beside the scaling; Gemma 3 has a second theta for its sliding layers.
  config.rope_theta = fields.real("rope_theta", 1, kMaxRopeTheta).value_or(family.rope_theta);
  if (has_local) config.rope_local_base_freq = fields.real("rope_local_base_freq", 1, kMaxRopeTheta).value_or(10000);
  if (fields.real("partial_rotary_factor", 0, 1).value_or(1) != 1)
    throw Error("{}: a partial_rotary_factor other than 1 is not supported.", fields.what());

  auto rope = fields.object("rope_parameters");
  if (!rope) {
    if (auto scaling = fields.object("rope_scaling")) config.rope_scaling = read_scaling(*scaling);
    return;
  }
  // Transformers 5: theta inside, and for Gemma 3 one object per kind of layer.
  auto full = rope->object("full_attention");
  auto sliding = rope->object("sliding_attention");
  if ((full || sliding) && !has_local)
    throw Error("{}: {} has one set of rope_parameters for all layers.", fields.what(), family.architecture);
  if (sliding) {
    config.rope_local_base_freq = sliding->real("rope_theta", 1, kMaxRopeTheta).value_or(config.rope_local_base_freq);
    if (RopeScaling local = read_scaling(*sliding); local.type != "default")
      throw Error("{}: rope type {} on sliding layers is not supported.", fields.what(), in_quotes(local.type));
  }
  if (!full && sliding) return;
  const JsonFields& global = full ? *full : *rope;
  config.rope_theta = global.real("rope_theta", 1, kMaxRopeTheta).value_or(config.rope_theta);
  config.rope_scaling = read_scaling(global);
}

}  // namespace fk
