// GLM 4.5: experts on all but the first layers, chosen by sigmoid scores with a learned correction, and shared ones.
#include "core/error.h"
#include "models/config_experts.h"
#include "models/config_rope.h"
#include "models/family.h"
#include "ops/l4/glm4_moe_for_causal_lm.h"

namespace fk {
namespace {

// Groups of experts, as DeepSeek and GLM have them; every group must have two experts to be compared by.
void read_groups(const FamilyFields& fields, Glm4MoeForCausalLM::Init& init) {
  init.n_group = fields.integer("n_group", 1, kMaxExperts).value_or(1);
  init.topk_group = fields.integer("topk_group", 1, kMaxExperts).value_or(1);
  if (init.n_routed_experts % init.n_group != 0 || init.n_routed_experts < 2 * init.n_group)
    throw Error("{}: n_group {} must divide n_routed_experts {} into groups of two or more.", fields.what(),
                init.n_group, init.n_routed_experts);
  if (init.topk_group > init.n_group ||
      init.topk_group * (init.n_routed_experts / init.n_group) < init.num_experts_per_tok)
    throw Error("{}: topk_group {} of n_group {} must hold at least num_experts_per_tok {} experts.", fields.what(),
                init.topk_group, init.n_group, init.num_experts_per_tok);
}

Glm4MoeForCausalLM::Init read_glm4_moe(const FamilyFields& fields) {
  Glm4MoeForCausalLM::Init init;
  read_decoder(fields, {.max_position_embeddings = 131072, .num_key_value_heads = 8, .rms_norm_eps = 1e-5}, init);
  init.rotary_dim = read_partial_rope(fields, 10000, 0.5, init);
  init.attention_bias = fields.boolean("attention_bias").value_or(false);
  init.use_qk_norm = fields.boolean("use_qk_norm").value_or(false);
  refuse_flag(fields, "mlp_bias");
  // transformers 5 may write the name that other families have.
  ExpertCounts counts =
      read_expert_counts(fields, fields.has("num_local_experts") ? "num_local_experts" : "n_routed_experts",
                         {.experts = 128, .per_token = 8});
  init.n_routed_experts = counts.experts;
  init.num_experts_per_tok = counts.per_token;
  read_groups(fields, init);
  init.moe_intermediate_size = fields.integer("moe_intermediate_size", 1, 1 << 22).value_or(1408);
  init.n_shared_experts = fields.integer("n_shared_experts", 1, kMaxExperts).value_or(1);
  init.first_k_dense_replace = fields.integer("first_k_dense_replace", 0, INT32_MAX).value_or(1);
  init.norm_topk_prob = fields.boolean("norm_topk_prob").value_or(true);
  init.routed_scaling_factor = fields.real("routed_scaling_factor", 1e-6, 1e6).value_or(1);
  return init;
}

// Checkpoints also hold a layer behind the last one that predicts a second token; it is not part of this model.
const RegisterFamily<Glm4MoeForCausalLM, read_glm4_moe> kGlm4Moe({.name = "glm4_moe",
                                                                  .model_type = "glm4_moe",
                                                                  .packed = separate_experts(),
                                                                  .other_parts = {"model.layers.46.",
                                                                                  "model.layers.92."}});

}  // namespace
}  // namespace fk
