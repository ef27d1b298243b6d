// What lies between the projections of sparse latent attention and its products by head, in one launch: the norm of
// latents, the norm of the indexer's keys, all rotary embeddings, and the writes to both caches.
#pragma once

#include <string_view>
#include <vector>

#include "core/tensor.h"

namespace fk::cuda {

inline constexpr int kMostLatentPairs = 128;  // that are rotated in a head

// As a kernel argument.
struct PairFrequencies {
  double at[kMostLatentPairs];
  int pairs;
  float factor;  // of sines and cosines
  bool halves;   // pairs lie half of the rotated elements apart; else they are neighbours

  static PairFrequencies of(const std::vector<double>& frequencies, double factor, bool halves);
};

struct LatentRotateStore {
  View queries;  // [T, H * head], rotated in place behind the first `nope` elements of each head
  int64_t head = 0, nope = 0;
  View latents;      // [T, L + rope]: latents before their norm, and the part of keys that is rotated
  View latent_norm;  // [L]
  double latent_eps = 0;
  View cache;                        // [blocks, page size, L + rope]
  View index_queries;                // [T, H' * index_head], the first elements of a head rotated in place
  View index_keys;                   // [T, index_head]
  View index_norm, index_norm_bias;  // [index_head], of a LayerNorm
  double index_eps = 0;
  View index_cache;   // [blocks, page size, index_head]
  View positions;     // i64 [T]
  View slot_mapping;  // i64 [T], negative: do not store
  PairFrequencies frequencies = {}, index_frequencies = {};
};

// Rounds where the separate operators do: after each norm and after the rotation. bf16 and f16.
void latent_rotate_store(const LatentRotateStore& call, void* stream);

}  // namespace fk::cuda
