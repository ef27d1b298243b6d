// Which keys a query sees and their addresses; used by all attention kernels.
#pragma once

#include "backend/cuda/attention/call.h"

namespace fk::cuda {

struct VisibleKeys {
  int first;
  int last;  // one past the end
};

// For the query at `position` of a sequence with `length` keys.
__device__ __forceinline__ VisibleKeys visible_keys(const AttentionCall& call, int position, int length) {
  int first = call.window > 0 ? max(0, position - call.window + 1) : 0;
  if (call.chunk > 0) first = max(first, position / call.chunk * call.chunk);
  return {first, call.causal ? min(position + 1, length) : length};
}

// Row of key j of sequence s, counted in tokens.
__device__ __forceinline__ int64_t key_row(const AttentionCall& call, int s, int j, int page_bits) {
  if (call.block_table == nullptr) return static_cast<int64_t>(call.cu_seqlens_k[s]) + j;
  const int64_t block = call.block_table[s * call.table_width + (j >> page_bits)];
  return (block << page_bits) + (j & ((1 << page_bits) - 1));
}

// The weight of a head's sink beside weights 2^(score - largest), scores and the largest one as exponents of two: a sum
// of weights gets larger by it. Where no key was seen, it is infinite, and what is divided by the sum becomes zero.
__device__ __forceinline__ float sink_weight(const AttentionCall& call, int head, float largest) {
  constexpr float kLog2OfE = 1.4426950408889634f;
  return call.sinks != nullptr ? exp2f(call.sinks[head] * kLog2OfE - largest) : 0.0f;
}

__device__ __forceinline__ float capped(float score, float cap) { return cap > 0 ? cap * tanhf(score / cap) : score; }

}  // namespace fk::cuda
