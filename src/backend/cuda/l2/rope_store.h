// The steps of an attention block between projection and attention, in one pass over the rows: norms of queries and
// keys (in some families), rotary embedding, and the write of new keys and values to the cache.
#pragma once

#include <string_view>

#include "backend/cuda/l1/rotary_frequencies.h"
#include "core/tensor.h"

namespace fk::cuda {

inline constexpr int64_t kMaxRopeStoreHead = 512;  // elements: two for each angle

struct RopeStoreArgs {
  View qkv;                      // [T, (H + 2 K) * Dh], rows contiguous: queries, keys, values of each token
  bool query_gates = false;      // behind each query there is its gate, of the same size, which is left alone
  bool values_are_keys = false;  // a row has no values: they are the keys before their norm
  bool value_norm = false;       // values are normed like keys, without a weight
  OptView
      q_out;  // [T, H * Dh], rows contiguous; without it the queries are rotated in place. Keys in qkv are unchanged
  OptView q_norm, k_norm;       // [Dh]: weights of RMSNorm over each head, before the rotation
  double eps = 0;               // of the norms
  double weight_offset = 0;     // added to the norms' weights: 1 for Gemma's
  View positions;               // i64 [T]
  View slot_mapping;            // i64 [T], negative: do not store
  View key_cache, value_cache;  // [blocks, page size, K, Dh], contiguous
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_size = 0;
  // Of the first pairs (i, i + pairs) of a head; what is behind them is not rotated.
  RotaryFrequencies frequencies = {};
};

// Why rope_store does not support such a call; empty if it does.
std::string_view rope_store_refusal(const RopeStoreArgs& args);

// Rounds where the separate operators do: after the norm and after the rotation.
void rope_store(const RopeStoreArgs& args, void* stream);

}  // namespace fk::cuda
