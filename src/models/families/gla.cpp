// GLA: gated linear attention, as flash-linear-attention stores it.
#include "models/family.h"
#include "models/linear_attention_fields.h"
#include "ops/l4/gla_for_causal_lm.h"

namespace fk {
namespace {

GLAForCausalLM::Init read_gla(const FamilyFields& fields) {
  GLAForCausalLM::Init init;
  read_linear_attention(fields, {}, init);
  init.clamp_min = fields.real("clamp_min", -1e6, -1e-6).value_or(0);
  return init;
}

const RegisterFamily<GLAForCausalLM, read_gla> kGla({.name = "gla",
                                                     .model_type = "gla",
                                                     .packed = {{"embed_tokens", {"embeddings"}},
                                                                {"qkvg_proj", {"q_proj", "k_proj", "v_proj", "g_proj"}},
                                                                {"qkv_proj", {"q_proj", "k_proj", "v_proj"}},
                                                                {"gate_up_proj", {"gate_proj", "up_proj"}}}});

}  // namespace
}  // namespace fk
