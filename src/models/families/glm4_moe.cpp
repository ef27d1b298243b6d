// GLM 4.5: experts on all but the first layers, chosen by sigmoid scores with a learned correction, and shared ones.
#include "models/config_experts.h"
#include "models/config_rope.h"
#include "models/family.h"
#include "ops/l4/glm4_moe_for_causal_lm.h"

namespace fk {
namespace {

Glm4MoeForCausalLM::Init read_glm4_moe(const FamilyFields& fields) {
  Glm4MoeForCausalLM::Init init;
  read_decoder(fields, {.max_position_embeddings = 131072, .num_key_value_heads = 8, .rms_norm_eps = 1e-5}, init);
  init.rotary_dim = read_partial_rope(fields, 10000, 0.5, init);
  init.attention_bias = fields.boolean("attention_bias").value_or(false);
  init.use_qk_norm = fields.boolean("use_qk_norm").value_or(false);
  refuse_flag(fields, "mlp_bias");
  read_grouped_experts(fields,
                       {.n_routed_experts = 128, .num_experts_per_tok = 8, .moe_intermediate_size = 1408}, init);
  return init;
}

// Checkpoints also hold a layer after the last one that predicts a second token; it is not part of this model.
const RegisterFamily<Glm4MoeForCausalLM, read_glm4_moe> kGlm4Moe({.name = "glm4_moe",
                                                                  .model_type = "glm4_moe",
                                                                  .packed = separate_experts(),
                                                                  .other_parts = {"model.layers.46.",
                                                                                  "model.layers.92."}});

}  // namespace
}  // namespace fk
