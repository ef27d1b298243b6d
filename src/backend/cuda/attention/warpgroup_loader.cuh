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
  const Boxes& boxes;
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

  // One thread starts the copies of all panels, the others only arrive. `copy` gets the panel, where to copy and the
  // barrier.
  template <class Copy>
  __device__ __forceinline__ void copy_boxes(uint32_t to, uint32_t panel_bytes, uint32_t full, const Copy& copy) const {
    if (threadIdx.x % kWarpgroup != 0) {
      arrive(full);
      return;
    }
    arrive_expecting(full, P::kPanels * panel_bytes);
#pragma unroll
    for (int p = 0; p < P::kPanels; ++p) copy(p, to + p * panel_bytes, full);
  }

  // Fills a tile with keys or values from `first` on. block_rows, the rows of its blocks, is used only where threads
  // copy.
  __device__ __forceinline__ void fill_tile(const CUtensorMap& map, const T* from, int64_t stride,
                                            const QueryItem& item, int first, int block_rows, uint32_t to,
                                            uint32_t full) const {
    if (P::kBoxes && boxes.keys && first + P::kKeys <= item.last_key) {
      const int at = call.cu_seqlens_k[item.sequence] + first;
      copy_boxes(to, P::kKeyPanelBytes, full, [&](int p, uint32_t panel, uint32_t barrier) {
        copy_box(panel, map, 64 * p, item.kv_head, at, barrier);
      });
    } else {
      load_tile(to, from, stride, block_rows, item.last_key - first);
      arrive_after_copies(full);
    }
  }

  __device__ __forceinline__ void fill_queries(const QueryItem& item, uint32_t stage) const {
    const uint32_t full = plan.queries_full(stage);
    if (P::kBoxes && boxes.queries) {
      const int group = call.heads / call.kv_heads;
      copy_boxes(plan.queries(stage), P::kQueryPanelBytes, full, [&](int p, uint32_t panel, uint32_t barrier) {
        copy_box(panel, boxes.q, 64 * p, item.kv_head * group, item.query_start + query_of(item.first_row, group),
                 barrier);
      });
    } else {
      load_queries(item, stage);
      arrive_after_copies(full);
    }
    record(stage, {item.kv_head, item.first_row, item.rows, item.query_start, item.first_key, item.last_key,
                   item.context, item.key_len});
  }

  __device__ __forceinline__ void record(uint32_t stage, const ItemRecord& item) const {
    if (threadIdx.x % kWarpgroup != 0) return;
    plan.write_record(stage, item);
    arrive(plan.queries_full(stage));
  }

  // Rows of an item that sees no keys.
  __device__ __forceinline__ void store_zeros(const QueryItem& item) const {
    const int group = call.heads / call.kv_heads;
    for (int i = 0; i < kRows / kBlock; ++i) {
      const int at = item.first_row + i * kBlock + row, query = query_of(at, group);
      if (at >= item.rows) break;
      T* out = static_cast<T*>(call.out) + (item.query_start + query) * call.out_strides.token +
               (item.kv_head * group + at - query * group) * call.out_strides.head + 8 * chunk;
#pragma unroll
      for (int p = 0; p < P::kPanels; ++p)
        if (inside(p)) *reinterpret_cast<uint4*>(out + 64 * p) = uint4{};
    }
  }

  __device__ __forceinline__ void run() const {
    uint32_t done = 0, items = 0;
    for (int round = 0;; ++round) {
      const QueryItem item = query_item<kRows>(call, snake_index(round));
      if (item.sequence < 0) break;
      const int tiles = tiles_of<kHeadSize>(item.first_key, item.last_key);
      if (tiles == 0) {
        store_zeros(item);
        continue;
      }
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
          fill_tile(boxes.k, k, call.k_strides.token, item, first, rows, plan.keys(turn.stage),
                    plan.keys_full(turn.stage));
        }
        if (i == 0) {
          const Turn<P::kQueryStages> turn(items);
          wait_phase(plan.queries_empty(turn.stage), turn.phase ^ 1);
          fill_queries(item, turn.stage);
        } else {
          const TileTurn turn(done + static_cast<uint32_t>(i) - 1);
          wait_phase(plan.values_empty(turn.stage), turn.phase ^ 1);
          fill_tile(boxes.v, v, call.v_strides.token, item, first - P::kKeys, value_rows, plan.values(turn.stage),
                    plan.values_full(turn.stage));
        }
      }
      done += static_cast<uint32_t>(tiles);
      ++items;
    }
    const Turn<P::kQueryStages> turn(items);
    wait_phase(plan.queries_empty(turn.stage), turn.phase ^ 1);
    arrive(plan.queries_full(turn.stage));
    record(turn.stage, {});
    commit_copies();
    wait_copies<0>();
  }
};

}  // namespace fk::cuda::warpgroups
