// OLMo 2: norms after the blocks, and over all heads of queries and keys.
#include "models/config_rope.h"
#include "models/family.h"
#include "ops/l4/olmo2_for_causal_lm.h"

namespace fk {
namespace {

Olmo2ForCausalLM::Init read_olmo2(const FamilyFields& fields) {
  Olmo2ForCausalLM::Init init;
  read_decoder(fields, {.rms_norm_eps = 1e-5}, init);
  read_rope(fields, 10000, init);
  init.attention_bias = fields.boolean("attention_bias").value_or(false);
  refuse_flag(fields, "mlp_bias");
  return init;
}

const RegisterFamily<Olmo2ForCausalLM, read_olmo2> kOlmo2({.name = "olmo2", .model_type = "olmo2"});

}  // namespace
}  // namespace fk
