// Constructor arguments of models with experts on all layers or on some, as Qwen's configs state them.
#pragma once

#include <algorithm>

#include "ops/l3/sparse_decoder_layer.h"
#include "ops/l4/decoder_model_init.h"

namespace fk {

struct ExpertLayers {
  int64_t num_experts = 0;
  int64_t num_experts_per_tok = 1;
  int64_t moe_intermediate_size = 0;          // of an expert
  bool norm_topk_prob = false;                // the weights of a token's experts add up to one
  int64_t decoder_sparse_step = 1;            // the last of every so many layers has experts
  std::vector<int64_t> mlp_only_layers = {};  // but not these

  bool has_experts(int64_t layer) const {
    return (layer + 1) % decoder_sparse_step == 0 &&
           std::find(mlp_only_layers.begin(), mlp_only_layers.end(), layer) == mlp_only_layers.end();
  }

  template <class Visitor>
  void visit(Visitor&& v) {
    v("num_experts", num_experts);
    v("num_experts_per_tok", num_experts_per_tok);
    v("moe_intermediate_size", moe_intermediate_size);
    v("norm_topk_prob", norm_topk_prob);
    v("decoder_sparse_step", decoder_sparse_step);
    v("mlp_only_layers", mlp_only_layers);
  }
};

// The arguments of layer i: what all layers share, and its experts if it has some.
inline SparseDecoderLayerInit sparse_layer(const DecoderModelInit& init, const ExpertLayers& experts, int64_t i) {
  SparseDecoderLayerInit layer{common_layer(init), {}};
  if (experts.has_experts(i))
    layer.moe = {.hidden_size = init.hidden_size,
                 .num_experts = experts.num_experts,
                 .top_k = experts.num_experts_per_tok,
                 .intermediate_size = experts.moe_intermediate_size,
                 .renormalize = experts.norm_topk_prob,
                 .tp_size = init.tp_size,
                 .tp_rank = init.tp_rank,
                 .reduce_results = init.tp_reduce,
                 .dtype = init.dtype};
  return layer;
}

}  // namespace fk
