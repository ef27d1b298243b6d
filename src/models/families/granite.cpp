// Granite 3: as Llama, with factors on embeddings, scores, residuals and logits.
#include "models/config_rope.h"
#include "models/family.h"
#include "ops/l4/granite_for_causal_lm.h"

namespace fk {
namespace {

GraniteForCausalLM::Init read_granite(const FamilyFields& fields) {
  GraniteForCausalLM::Init init;
  read_decoder(fields, {}, init);
  read_rope(fields, 10000, init);
  init.attention_bias = fields.boolean("attention_bias").value_or(false);
  init.mlp_bias = fields.boolean("mlp_bias").value_or(false);
  auto factor = [&](std::string_view key) { return fields.real(key, 1e-6, 1e6).value_or(1); };
  init.embedding_multiplier = factor("embedding_multiplier");
  init.attention_multiplier = factor("attention_multiplier");
  init.residual_multiplier = factor("residual_multiplier");
  init.logits_scaling = factor("logits_scaling");
  return init;
}

const RegisterFamily<GraniteForCausalLM, read_granite> kGranite({.name = "granite", .model_type = "granite"});

}  // namespace
}  // namespace fk
