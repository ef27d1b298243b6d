// DeepSeek V3 and R1, and Kimi K2: latent attention; experts chosen by sigmoid scores with a learned correction, in
// groups, and a shared one.
#include "models/config_experts.h"
#include "models/config_latent.h"
#include "models/family.h"
#include "ops/l4/deepseek_v3_for_causal_lm.h"

namespace fk {
namespace {

DeepseekV3ForCausalLM::Init read_deepseek_v3(const FamilyFields& fields) {
  DeepseekV3ForCausalLM::Init init;
  read_latent_decoder(fields, {.max_position_embeddings = 4096}, {}, init, init);
  read_grouped_experts(fields,
                       {.first_k_dense_replace = 3,
                        .n_routed_experts = 256,
                        .num_experts_per_tok = 8,
                        .moe_intermediate_size = 2048,
                        .n_group = 8,
                        .topk_group = 4,
                        .routed_scaling_factor = 2.5},
                       init);
  return init;
}

// Checkpoints also hold a layer after the last one that predicts a second token; it is not part of this model.
const RegisterFamily<DeepseekV3ForCausalLM, read_deepseek_v3> kDeepseekV3({.name = "deepseek_v3",
                                                                           .model_type = "deepseek_v3",
                                                                           .other_model_types = {"kimi_k2"},
                                                                           .packed = separate_experts(),
                                                                           .other_parts = {"model.layers.61."}});

}  // namespace
}  // namespace fk
