// Loader: fills shared memory with queries, keys and values for the warpgroups that multiply.
#pragma once

#include "backend/cuda/attention/warpgroup_plan.cuh"
#include "backend/cuda/device/tile.cuh"

namespace fk::cuda::warpgroups {

// Eight threads copy 128 bytes of a row, so the warpgroup does 16 rows at a time: one block of the cache.
template <class T, int kHeadSize>
struct Loader {
  using P = Plan<kHeadSize>;
  using TileTurn = Turn<P::kStages>;
  static constexpr int kBlocks = P::kKeys / kBlock;
  static_assert(kBlock == kWarpgroup / 8);

  const AttentionCall& call;
  P plan;
  int row = static_cast<int>(threadIdx.x) % kWarpgroup / 8, chunk = static_cast<int>(threadIdx.x) % 8;

  // Heads of other sizes than kHeadSize are filled up with zeros: whether a head has this thread's chunk of panel p.
  __device__ __forceinline__ bool inside(int p) const { return 64 * p + 8 * chunk < call.head_size; }

  // The first row of block `lane` of the tile of keys that begins at `first`.
  __device__ __forceinline__ int look_up(const QueryItem& item, int first) const {
    const int lane = threadIdx.x % 32, key = first + lane * kBlock;
    return lane < kBlocks && key < item.last_key ? static_cast<int>(key_row(call, item.sequence, key, kTileBits)) : 0;
  }

  // Values beyond the last key become zero: a weight of zero would not remove a NaN.
  __device__ __forceinline__ void load_tile(uint32_t to, const T* from, int64_t stride, int block_rows,
                                            int keys) const {
    to += panel_place(row, chunk);
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      const int64_t start = __shfl_sync(kAllLanes, block_rows, b);
      const bool valid = b * kBlock + row < keys;
      const T* source = from + (valid ? start + row : 0) * stride;
#pragma unroll
      for (int p = 0; p < P::kPanels; ++p)
        copy_async(to + p * P::kKeyPanelBytes + b * kBlock * kPanelRowBytes, source + 64 * p, valid && inside(p));
    }
  }

  __device__ __forceinline__ void load_queries(const QueryItem& item, uint32_t stage) const {
    const int group = call.heads / call.kv_heads;
    const uint32_t to = plan.queries(stage) + panel_place(row, chunk);
    const T* from = static_cast<const T*>(call.q) + item.query_start * call.q_strides.token +
                    item.kv_head * group * call.q_strides.head + 8 * chunk;
#pragma unroll 1
    for (int i = 0; i < kRows / kBlock; ++i) {
      const int at = item.first_row + i * kBlock + row, query = query_of(at, group);
      const bool valid = at < item.rows;
      const T* source = from + (valid ? query * call.q_strides.token + (at - query * group) * call.q_strides.head : 0);
#pragma unroll
      for (int p = 0; p < P::kPanels; ++p)
        copy_async(to + p * P::kQueryPanelBytes + i * kBlock * kPanelRowBytes, source + 64 * p, valid && inside(p));
    }
  }

  __device__ __forceinline__ void run() const {
    uint32_t done = 0, items = 0;
    for (int round = 0;; ++round) {
      const QueryItem item = query_item<kRows>(call, snake_index(round));
      if (item.sequence < 0) break;
      const int tiles = tiles_of<kHeadSize>(item);
      if (tiles == 0) continue;
      const T* k = static_cast<const T*>(call.k) + item.kv_head * call.k_strides.head + 8 * chunk;
      const T* v = static_cast<const T*>(call.v) + item.kv_head * call.v_strides.head + 8 * chunk;
      // The block table is read one tile ahead, so that no copy waits for its address. Values come a tile later than
      // keys, as they are used.
      int next_rows = look_up(item, item.first_key), rows = 0;
      for (int i = 0; i <= tiles; ++i) {
        const int first = item.first_key + i * P::kKeys, value_rows = rows;
        if (i < tiles) {
          rows = next_rows;
          next_rows = look_up(item, first + P::kKeys);
          const TileTurn turn(done + static_cast<uint32_t>(i));
          wait_phase(plan.keys_empty(turn.stage), turn.phase ^ 1);
          load_tile(plan.keys(turn.stage), k, call.k_strides.token, rows, item.last_key - first);
          arrive_after_copies(plan.keys_full(turn.stage));
        }
        if (i == 0) {
          const Turn<P::kQueryStages> turn(items);
          wait_phase(plan.queries_empty(turn.stage), turn.phase ^ 1);
          load_queries(item, turn.stage);
          arrive_after_copies(plan.queries_full(turn.stage));
        } else {
          const TileTurn turn(done + static_cast<uint32_t>(i) - 1);
          wait_phase(plan.values_empty(turn.stage), turn.phase ^ 1);
          load_tile(plan.values(turn.stage), v, call.v_strides.token, value_rows, item.last_key - first + P::kKeys);
          arrive_after_copies(plan.values_full(turn.stage));
        }
      }
      done += static_cast<uint32_t>(tiles);
      ++items;
    }
    commit_copies();
    wait_copies<0>();
  }
};

}  // namespace fk::cuda::warpgroups
