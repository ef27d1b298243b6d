// Cohere's Command R: layer norms, attention and feed-forward side by side, heads rotated in pairs of neighbours.
#include "models/config_rope.h"
#include "models/family.h"
#include "ops/l4/cohere_for_causal_lm.h"

namespace fk {
namespace {

CohereForCausalLM::Init read_cohere(const FamilyFields& fields) {
  CohereForCausalLM::Init init;
  read_decoder(fields, {.max_position_embeddings = 8192, .tie_word_embeddings = true}, init);
  init.rms_norm_eps = fields.real("layer_norm_eps", 1e-30, 1).value_or(1e-5);
  read_rope(fields, 10000, init);
  init.attention_bias = fields.boolean("attention_bias").value_or(false);
  refuse_flag(fields, "mlp_bias");
  init.use_qk_norm = fields.boolean("use_qk_norm").value_or(false);
  init.logit_scale = fields.real("logit_scale", 1e-6, 1e6).value_or(0.0625);
  return init;
}

const RegisterFamily<CohereForCausalLM, read_cohere> kCohere({.name = "cohere", .model_type = "cohere"});

}  // namespace
}  // namespace fk
