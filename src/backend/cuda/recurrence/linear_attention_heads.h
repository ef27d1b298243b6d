// The middle of the blocks of gated linear attention and retention: from the projections to the outputs of heads,
// before their norm. One kernel prepares decays, or rotates queries and keys, and steps.
#pragma once

#include <string_view>

#include "backend/cuda/l1/rotary_frequencies.h"
#include "ops/forward_context.h"

namespace fk::cuda {

struct LinearAttentionHeads {
  View q, k, v;  // [T, heads * size of a head]; keys and values may have fewer heads
  // Gated linear attention: log decays are logsigmoid(up low + up_bias) * factor, at least `least`.
  OptView low = {};      // [T, rank]
  OptView up = {};       // [key heads * K, rank]
  OptView up_bias = {};  // [key heads * K]
  double factor = 1, least = 0;
  // Retention: heads decay at fixed rates.
  OptView positions = {};  // i64 [T]
  const RotaryFrequencies* frequencies = nullptr;
  int64_t first_head = 0;

  View state = {};        // f32 [slots, H, K, V]
  View norm_weight = {};  // [V]
  OptView gate = {};      // [T, H * V], multiplied as SiLU
  View out = {};          // f32 [T, H * V]
  View squares = {};  // f32 [T, H, linear_attention_parts(V)]: sums of squares of the outputs before weight and gate
  double scale = 1;

  int64_t heads() const { return state.size(1); }
};

// Parts that the sum of squares of a head comes in.
int64_t linear_attention_parts(int64_t head_v_dim);
// Why heads of these sizes are not supported; empty if they are.
std::string_view refuse_linear_attention_heads(int64_t head_k_dim, int64_t head_v_dim);
// For all sequences of a batch.
void run_linear_attention_heads(const LinearAttentionHeads& call, const AttentionMetadata& batch, void* stream);

}  // namespace fk::cuda
