// The constructor arguments that models with sparse latent attention have besides those of DeepSeek V3.
#pragma once

#include "ops/l3/deepseek_v32_decoder_layer.h"
#include "ops/l4/deepseek_v3_for_causal_lm.h"

namespace fk {

struct SparseLatentModelInit : DeepseekV3ForCausalLMInit {
  int64_t index_n_heads = 0;
  int64_t index_head_dim = 0;
  int64_t index_topk = 0;
  bool index_is_neox_style = true;  // of the indexer's rotary embedding

  template <class Visitor>
  void visit(Visitor&& v) {
    DeepseekV3ForCausalLMInit::visit(v);
    v("index_n_heads", index_n_heads);
    v("index_head_dim", index_head_dim);
    v("index_topk", index_topk);
    v("index_is_neox_style", index_is_neox_style);
  }

  DeepseekV32DecoderLayer::Init layer(int64_t i) const {
    return {.attention = {block(*this), index_n_heads, index_head_dim, index_topk, index_is_neox_style},
            .mlp = common_layer(*this).mlp,
            .moe = of_layer(*this, i),
            .rms_norm_eps = rms_norm_eps};
  }
};

// A small one for the cases of the families.
SparseLatentModelInit small_sparse_latent_model();

}  // namespace fk
