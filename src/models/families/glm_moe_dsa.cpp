// GLM 5: the sparse latent attention of DeepSeek V3.2, whose indexer rotates neighbours.
#include "models/config_sparse_latent.h"
#include "models/family.h"
#include "ops/l4/glm_moe_dsa_for_causal_lm.h"

namespace fk {
namespace {

SparseLatentModelInit read_glm_moe_dsa(const FamilyFields& fields) {
  SparseLatentModelInit init;
  read_sparse_latent(fields,
                     {.decoder = {.max_position_embeddings = 202752, .rms_norm_eps = 1e-5},
                      .latent = {.q_lora_rank = 2048, .qk_nope_head_dim = 192, .v_head_dim = 256},
                      .experts = {.first_k_dense_replace = 3,
                                  .n_routed_experts = 256,
                                  .num_experts_per_tok = 8,
                                  .moe_intermediate_size = 2048,
                                  .routed_scaling_factor = 2.5},
                      .index_n_heads = 32},
                     init);
  init.is_neox_style = init.index_is_neox_style = false;  // transformers knows no other way for this family
  return init;
}

// Checkpoints also hold a layer after the last one that predicts a second token; it is not part of this model.
const RegisterFamily<GlmMoeDsaForCausalLM, read_glm_moe_dsa> kGlmMoeDsa({.name = "glm_moe_dsa",
                                                                         .model_type = "glm_moe_dsa",
                                                                         .packed = separate_experts(),
                                                                         .other_parts = {"model.layers.78."}});

}  // namespace
}  // namespace fk
