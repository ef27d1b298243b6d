#include "ops/l4/linear_attention_lm.h"

namespace fk {

LinearAttentionLayerInit linear_attention_layer(const LinearAttentionLMInit& c) {
  return {.attention = {.hidden_size = c.hidden_size,
                        .num_heads = c.num_attention_heads,
                        .num_kv_heads = c.num_key_value_heads,
                        .head_k_dim = c.head_dim,
                        .head_v_dim = c.head_v_dim,
                        .use_output_gate = c.use_output_gate,
                        .fuse_norm = c.fuse_norm,
                        .norm_eps = c.rms_norm_eps,
                        .clamp_min = c.clamp_min,
                        .max_position = c.max_position_embeddings,
                        .tp_size = c.tp_size,
                        .tp_rank = c.tp_rank,
                        .reduce_results = c.tp_reduce,
                        .dtype = c.dtype},
          .mlp = {.hidden_size = c.hidden_size,
                  .intermediate_size = c.intermediate_size,
                  .tp_size = c.tp_size,
                  .tp_rank = c.tp_rank,
                  .reduce_results = c.tp_reduce,
                  .dtype = c.dtype},
          .rms_norm_eps = c.rms_norm_eps};
}

LinearAttentionLMInit linear_attention_case() {
  LinearAttentionLMInit c{{.vocab_size = 319,
                           .hidden_size = 64,
                           .intermediate_size = 160,
                           .num_hidden_layers = 2,
                           .num_attention_heads = 2,
                           .num_key_value_heads = 2,
                           .head_dim = 16,
                           .max_position_embeddings = 512}};
  c.head_v_dim = 32;
  return c;
}

}  // namespace fk
