// The two halves of kv_b_proj as products by head: what moves latent attention onto the latents.
#pragma once

#include "ops/l1/per_head_linear.h"
#include "ops/l2/mla_attention.h"

namespace fk {

// Queries of the size of a head's keys become queries of latents.
inline PerHeadLinear::Init absorb_queries(const MLAAttentionInit& init) {
  return {.num_heads = init.num_heads,
          .in_features = init.qk_nope_head_dim,
          .out_features = init.kv_lora_rank,
          .rows_per_head = init.qk_nope_head_dim + init.v_head_dim,
          .transposed = true,
          .weight_format = init.weight_format,
          .dtype = init.dtype};
}

// Means of latents become means of a head's values.
inline PerHeadLinear::Init project_values(const MLAAttentionInit& init) {
  return {.num_heads = init.num_heads,
          .in_features = init.kv_lora_rank,
          .out_features = init.v_head_dim,
          .rows_per_head = init.qk_nope_head_dim + init.v_head_dim,
          .first_row = init.qk_nope_head_dim,
          .weight_format = init.weight_format,
          .dtype = init.dtype};
}

}  // namespace fk
