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
  return {call.window > 0 ? max(0, position - call.window + 1) : 0, call.causal ? min(position + 1, length) : length};
}

// Row of key j of sequence s, counted in tokens.
__device__ __forceinline__ int64_t key_row(const AttentionCall& call, int s, int j) {
  if (call.block_table == nullptr) return static_cast<int64_t>(call.cu_seqlens_k[s]) + j;
  constexpr int kBlock = static_cast<int>(kBlockSize);
  return static_cast<int64_t>(call.block_table[s * call.table_width + j / kBlock]) * kBlock + j % kBlock;
}

__device__ __forceinline__ float capped(float score, float cap) { return cap > 0 ? cap * tanhf(score / cap) : score; }

}  // namespace fk::cuda
