// What an attention block does between its projection and its attention, in one pass over the projection's rows: norms
// of queries and keys where the family has them, rotary embedding, and the new keys and values written to the cache.
#pragma once

#include <string_view>

#include "backend/cuda/l1/rotary_frequencies.h"
#include "core/tensor.h"

namespace fk::cuda {

struct RopeStoreArgs {
  View qkv;  // [T, (H + 2 K) * Dh], rows contiguous: queries, keys, values of each token
  OptView
      q_out;  // [T, H * Dh], rows contiguous; without it the queries are turned in place. Keys in qkv stay as they are
  OptView q_norm, k_norm;       // [Dh]: weights of RMSNorm over each head, before it is turned
  double eps = 0;               // of the norms
  double weight_offset = 0;     // added to the norms' weights: 1 for Gemma's
  View positions;               // i64 [T]
  View slot_mapping;            // i64 [T], negative: do not store
  View key_cache, value_cache;  // [blocks, page size, K, Dh], contiguous
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_size = 0;
  RotaryFrequencies frequencies = {};  // of head_size / 2 pairs (i, i + head_size / 2)
};

// Why rope_store does not take such a call; empty when it does.
std::string_view rope_store_refusal(const RopeStoreArgs& args);

// Rounds where the operators it stands for do: after the norm and after the turn.
void rope_store(const RopeStoreArgs& args, void* stream);

}  // namespace fk::cuda
