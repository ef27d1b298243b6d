// Work items of attention blocks: the queries of all sequences, split into items of kRows rows, in the order of
// processing.
//
// The query heads of one kv head share its keys, so the rows of an item are queries times those heads, heads fastest,
// so that also a short sequence fills a tile. The last rows of a sequence come first, because they see the most keys
// and long work should start early. Items are assigned to blocks in alternating direction (left to right, then right to
// left), so that every block gets about the same number of keys.
#pragma once

#include "backend/cuda/attention/keys.cuh"
#include "backend/cuda/device/reduce.cuh"

namespace fk::cuda {

struct QueryItem {
  int sequence = -1;  // none left
  int kv_head = 0;
  int first_row = 0;
  int rows = 0;         // of the whole sequence
  int query_start = 0;  // the sequence's first, in tokens
  int context = 0;      // position of its query i is context + i
  int key_len = 0;
  int first_key = 0;  // keys that any row of the item sees, from a block boundary on
  int last_key = 0;   // one past the end
};

// The query of a row. Divisions take long, and most models for whole texts have a kv head for every head.
__device__ __forceinline__ int query_of(int row, int group) { return group == 1 ? row : row / group; }

__device__ __forceinline__ int snake_index(int round) {
  const int blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
  return round * blocks + (round % 2 == 0 ? block : blocks - 1 - block);
}

// All lanes of a warp search the same item, each in another sequence.
template <int kRows>
__device__ __forceinline__ QueryItem query_item(const AttentionCall& call, int index) {
  const int lane = threadIdx.x % 32, group = call.heads / call.kv_heads;
  int tile = index / call.kv_heads;
  for (int s0 = 0; s0 < call.sequences; s0 += 32) {
    const int s = s0 + lane;
    const int queries = s < call.sequences ? call.cu_seqlens_q[s + 1] - call.cu_seqlens_q[s] : 0;
    int through = (queries * group + kRows - 1) / kRows;  // becomes the tiles of this and all sequences before
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int before = __shfl_up_sync(kAllLanes, through, distance);
      if (lane >= distance) through += before;
    }
    const unsigned reached = __ballot_sync(kAllLanes, tile < through);
    if (reached == 0) {
      tile -= __shfl_sync(kAllLanes, through, 31);
      continue;
    }
    const int owner = __ffs(static_cast<int>(reached)) - 1;
    QueryItem item;
    item.sequence = s0 + owner;
    item.kv_head = index % call.kv_heads;
    item.first_row = (__shfl_sync(kAllLanes, through, owner) - 1 - tile) * kRows;
    item.rows = __shfl_sync(kAllLanes, queries, owner) * group;
    item.query_start = call.cu_seqlens_q[item.sequence];
    item.key_len = call.cu_seqlens_k[item.sequence + 1] - call.cu_seqlens_k[item.sequence];
    item.context = item.key_len - query_of(item.rows, group);
    const int last_row = min(item.first_row + kRows, item.rows) - 1;
    item.first_key =
        visible_keys(call, item.context + query_of(item.first_row, group), item.key_len).first / kTileKeys * kTileKeys;
    item.last_key = visible_keys(call, item.context + query_of(last_row, group), item.key_len).last;
    return item;
  }
  return {};
}

}  // namespace fk::cuda
