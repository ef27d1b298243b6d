// Which sequence a query belongs to, which keys it sees, and where they lie; used by all kernels on latents.
#pragma once

#include "backend/cuda/latent/call.h"

namespace fk::cuda {

// The sequence whose new tokens include token t: the last one that starts at or before it.
__device__ __forceinline__ int latent_sequence(const LatentCall& call, int t) {
  if (call.cu_seqlens_q == nullptr) return t;
  int low = 0, high = call.sequences - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (call.cu_seqlens_q[middle] <= t)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

// How many keys of sequence s token t sees, from the first on.
__device__ __forceinline__ int latent_keys(const LatentCall& call, int s, int t) {
  const int first = call.cu_seqlens_q == nullptr ? t : call.cu_seqlens_q[s];
  const int queries = call.cu_seqlens_q == nullptr ? 1 : call.cu_seqlens_q[s + 1] - first;
  const int context = call.seq_lens[s] - queries;
  return max(0, context + (call.context_only ? 0 : t - first + 1));
}

// The entry of key j of sequence s, counted in tokens of the cache; and its first element.
__device__ __forceinline__ int64_t latent_entry(const LatentCall& call, int s, int j) {
  const int64_t block = call.block_table[s * call.table_width + (j >> call.page_bits)];
  return (block << call.page_bits) + (j & ((1 << call.page_bits) - 1));
}
__device__ __forceinline__ int64_t latent_offset(const LatentCall& call, int64_t entry) {
  return (entry >> call.page_bits) * call.block_stride + (entry & ((1 << call.page_bits) - 1)) * call.entry_stride;
}

}  // namespace fk::cuda
