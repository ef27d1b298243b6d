// The constructor arguments that models with latent attention have, and the parts of their layers.
#pragma once

#include "ops/l3/mla_decoder_layer.h"
#include "ops/l4/decoder_model_init.h"

namespace fk {

struct LatentAttention {
  int64_t q_lora_rank = 0;  // 0: queries are projected at once
  int64_t kv_lora_rank = 0;
  int64_t qk_nope_head_dim = 0;
  int64_t qk_rope_head_dim = 0;
  int64_t v_head_dim = 0;
  bool attention_bias = false;   // of the projections down, and of the output projection
  double attention_scale = 0;    // of the scores; 0: 1 / sqrt(nope + rope)
  double latent_norm_eps = 1e-6;  // of the norms of latents

  template <class Visitor>
  void visit(Visitor&& v) {
    v("q_lora_rank", q_lora_rank);
    v("kv_lora_rank", kv_lora_rank);
    v("qk_nope_head_dim", qk_nope_head_dim);
    v("qk_rope_head_dim", qk_rope_head_dim);
    v("v_head_dim", v_head_dim);
    v("attention_bias", attention_bias);
    v("attention_scale", attention_scale);
    v("latent_norm_eps", latent_norm_eps);
  }

  MLABlockInit block(const DecoderModelInit& init) const {
    return {.hidden_size = init.hidden_size,
            .num_heads = init.num_attention_heads,
            .qk_nope_head_dim = qk_nope_head_dim,
            .qk_rope_head_dim = qk_rope_head_dim,
            .v_head_dim = v_head_dim,
            .q_lora_rank = q_lora_rank,
            .kv_lora_rank = kv_lora_rank,
            .max_position = init.max_position_embeddings,
            .rope_theta = init.rope_theta,
            .rope_scaling = init.rope_scaling,
            .is_neox_style = init.is_neox_style,
            .bias = attention_bias,
            .rms_norm_eps = latent_norm_eps,
            .scale = attention_scale,
            .tp_size = init.tp_size,
            .tp_rank = init.tp_rank,
            .reduce_results = init.tp_reduce,
            .dtype = init.dtype};
  }
};

}  // namespace fk
