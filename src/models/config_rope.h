// The rotary embedding's part of config.json, in the spellings of transformers 4 and 5.
#pragma once

#include "models/family.h"
#include "models/json_fields.h"
#include "ops/l4/causal_lm_config.h"

namespace fk {

inline constexpr double kMaxRopeTheta = 1e12;  // far beyond any in use (1e7), far below what loses precision
inline constexpr double kMaxRopeFactor = 1e6;

// Sets rope_theta, rope_scaling and, for Gemma 3, rope_local_base_freq.
void read_rope(const JsonFields& fields, const Family& family, CausalLMConfig& config);

}  // namespace fk
