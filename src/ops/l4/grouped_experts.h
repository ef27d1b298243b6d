// The constructor arguments of models with experts on all but the first layers, chosen by sigmoid scores with a learned
// correction, maybe in groups, and shared experts.
#pragma once

#include "ops/l2/grouped_moe_block.h"
#include "ops/l4/decoder_model_init.h"

namespace fk {

struct GroupedExperts {
  int64_t first_k_dense_replace = 1;  // layers before the first one with experts
  int64_t n_routed_experts = 0;
  int64_t num_experts_per_tok = 1;
  int64_t moe_intermediate_size = 0;  // of an expert
  int64_t n_shared_experts = 1;       // that all tokens use, together one block so many times as wide
  int64_t n_group = 1;
  int64_t topk_group = 1;
  bool norm_topk_prob = true;  // the weights of a token's experts add up to one before they are scaled
  double routed_scaling_factor = 1;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("first_k_dense_replace", first_k_dense_replace);
    v("n_routed_experts", n_routed_experts);
    v("num_experts_per_tok", num_experts_per_tok);
    v("moe_intermediate_size", moe_intermediate_size);
    v("n_shared_experts", n_shared_experts);
    v("n_group", n_group);
    v("topk_group", topk_group);
    v("norm_topk_prob", norm_topk_prob);
    v("routed_scaling_factor", routed_scaling_factor);
  }

  // Of layer i; without experts where it has none.
  GroupedMoeBlockInit of_layer(const DecoderModelInit& init, int64_t i) const {
    if (i < first_k_dense_replace) return {};
    return {{.hidden_size = init.hidden_size,
             .num_experts = n_routed_experts,
             .top_k = num_experts_per_tok,
             .intermediate_size = moe_intermediate_size,
             .renormalize = norm_topk_prob,
             .shared_expert_intermediate_size = n_shared_experts * moe_intermediate_size,
             .tp_size = init.tp_size,
             .tp_rank = init.tp_rank,
             .reduce_results = init.tp_reduce,
             .dtype = init.dtype},
            n_group,
            topk_group,
            routed_scaling_factor};
  }
};

}  // namespace fk
