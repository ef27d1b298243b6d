// DeepSeek V3.2: V3 with attention over the keys that an indexer chooses for each query.
#include "models/config_sparse_latent.h"
#include "models/family.h"
#include "ops/l4/deepseek_v32_for_causal_lm.h"

namespace fk {
namespace {

SparseLatentModelInit read_deepseek_v32(const FamilyFields& fields) {
  SparseLatentModelInit init;
  read_sparse_latent(fields,
                     {.decoder = {.max_position_embeddings = 163840},
                      .latent = {},
                      .experts = {.first_k_dense_replace = 3,
                                  .n_routed_experts = 256,
                                  .num_experts_per_tok = 8,
                                  .moe_intermediate_size = 2048,
                                  .n_group = 8,
                                  .topk_group = 4,
                                  .routed_scaling_factor = 2.5},
                      .index_n_heads = 64},
                     init);
  init.is_neox_style = false;  // transformers knows no other way for this family
  return init;
}

// Checkpoints also hold a layer after the last one that predicts a second token; it is not part of this model.
const RegisterFamily<DeepseekV32ForCausalLM, read_deepseek_v32> kDeepseekV32({.name = "deepseek_v32",
                                                                              .model_type = "deepseek_v32",
                                                                              .packed = separate_experts(),
                                                                              .other_parts = {"model.layers.61."}});

}  // namespace
}  // namespace fk
