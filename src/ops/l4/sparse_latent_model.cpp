#include "ops/l4/sparse_latent_model.h"

namespace fk {

SparseLatentModelInit small_sparse_latent_model() {
  SparseLatentModelInit c;
  c.vocab_size = 305;
  c.hidden_size = 64;
  c.intermediate_size = 100;
  c.num_hidden_layers = 3;
  c.num_attention_heads = c.num_key_value_heads = 4;
  c.head_dim = c.qk_rope_head_dim = 8;
  c.max_position_embeddings = 512;
  c.is_neox_style = false;
  c.q_lora_rank = 24;
  c.kv_lora_rank = c.qk_nope_head_dim = c.v_head_dim = 16;
  // All experts and all keys: with fewer, rounding in bf16 could change the choice, and then the reference computes
  // something else.
  c.n_routed_experts = c.num_experts_per_tok = 4;
  c.moe_intermediate_size = 40;
  c.n_group = c.topk_group = 2;
  c.routed_scaling_factor = 1.5;
  c.index_n_heads = c.index_head_dim = 16;
  c.index_topk = 32;
  return c;
}

}  // namespace fk
