// GLM 4: norms before and after each block, half of each head rotated; checkpoints stack gate and up as the model does.
#include "models/config_rope.h"
#include "models/family.h"
#include "ops/l4/glm4_for_causal_lm.h"

namespace fk {
namespace {

Glm4ForCausalLM::Init read_glm4(const FamilyFields& fields) {
  Glm4ForCausalLM::Init init;
  read_decoder(
      fields, {.max_position_embeddings = 131072, .num_key_value_heads = 2, .head_dim = 128, .rms_norm_eps = 1.5625e-7},
      init);
  init.rotary_dim = read_partial_rope(fields, 10000, 0.5, init);
  init.attention_bias = fields.boolean("attention_bias").value_or(true);
  refuse_flag(fields, "mlp_bias");
  return init;
}

const RegisterFamily<Glm4ForCausalLM, read_glm4> kGlm4({.name = "glm4",
                                                        .model_type = "glm4",
                                                        .packed = {{"qkv_proj", {"q_proj", "k_proj", "v_proj"}}}});

}  // namespace
}  // namespace fk
