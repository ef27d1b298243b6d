// What a gated delta net computes between its first products and the last: everything in it belongs to a head.
#pragma once

#include <string_view>

#include "ops/forward_context.h"

namespace fk::cuda {

struct DeltaNetHeads {
  View qkvz;  // [T, 2 * keys + 2 * values], for each head of keys: query, key, values, gates of its heads of values
  View ba;    // [T, 2 * heads of values], likewise: the rate and the decay of its heads of values
  View conv_weight;     // [2 * keys + values, 1, width]: of all queries, all keys, all values
  View a_log, dt_bias;  // [heads of values]
  View norm_weight;     // [head_v_dim]
  View state;           // f32 [slots, heads of values, head_k_dim, head_v_dim], contiguous
  View conv_state;      // [slots, width - 1, 2 * keys + values]
  View out;             // [T, values]
  int64_t num_k_heads = 0, num_v_heads = 0, head_k_dim = 0, head_v_dim = 0;
  double key_eps = 0, norm_eps = 0;

  int64_t shared() const { return num_v_heads / num_k_heads; }
};

// Why such a call is not supported; empty if it is. Only its sizes are looked at.
std::string_view refuse_delta_net_heads(const DeltaNetHeads& call, int64_t conv_width);
// For all sequences of a batch.
void run_delta_net_heads(const DeltaNetHeads& call, const AttentionMetadata& batch, void* stream);

}  // namespace fk::cuda
