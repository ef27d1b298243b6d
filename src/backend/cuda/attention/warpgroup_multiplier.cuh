// Multiplier: attention of 64 rows by one warpgroup, over the tiles that the loader copies into shared memory.
//
// It starts the scores of tile i and the weighted values of tile i - 1 together and computes the weights of tile i
// while the latter are still being multiplied. The two warpgroups alternate in starting products, so that one uses the
// tensor cores while the other computes its weights.
#pragma once

#include "backend/cuda/attention/running_softmax.cuh"
#include "backend/cuda/attention/warpgroup_plan.cuh"
#include "backend/cuda/device/tile.cuh"

namespace fk::cuda::warpgroups {

__device__ __forceinline__ void wait_for_tile(uint32_t barrier, uint32_t phase) {
  wait_phase(barrier, phase);
  show_shared_memory_to_products();
}

// One arrival per warp: its products have read the tile.
__device__ __forceinline__ void release(uint32_t barrier, bool every_lane = false) {
  if (threadIdx.x % 32 == 0 || every_lane) arrive(barrier);
}

// A 4 x 4 transpose in every group of four lanes: entry b of lane p goes to entry p of lane b.
__device__ __forceinline__ void transpose_among_four(uint32_t (&part)[4]) {
  const bool odd = threadIdx.x & 1, upper = threadIdx.x & 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const uint32_t got = __shfl_xor_sync(kAllLanes, odd ? part[i] : part[i + 1], 1);
    part[i] = odd ? got : part[i];
    part[i + 1] = odd ? part[i + 1] : got;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t got = __shfl_xor_sync(kAllLanes, upper ? part[i] : part[i + 2], 2);
    part[i] = upper ? got : part[i];
    part[i + 2] = upper ? part[i + 2] : got;
  }
}

template <class T, int kHeadSize, bool kCapped>
struct Multiplier {
  using P = Plan<kHeadSize>;
  using TileTurn = Turn<P::kStages>;
  static constexpr int kKeys = P::kKeys;

  const AttentionCall& call;
  const Boxes& boxes;
  P plan;
  int warpgroup;
  int quad = static_cast<int>(threadIdx.x) % 4;
  int group = call.heads / call.kv_heads;
  // Scores are multiplied with `scale` in the exponent of two; capped ones have gone through tanh before.
  float scale = (kCapped ? call.soft_cap : call.scale) * kLog2E;

  float mean[kHeadSize / 2];
  float score[kKeys / 2];
  uint32_t weight[kKeys / 16][4];

  // The two rows of this thread, as rows of the sequence.
  __device__ __forceinline__ int my_row(int first_row, int r) const {
    return first_row + static_cast<int>(threadIdx.x) / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4 + 8 * r;
  }

  // 16 columns of head are 32 bytes of a panel; four such steps to the next panel.
  __device__ __forceinline__ void start_scores(uint32_t stage, uint32_t query_stage) {
    const uint64_t queries =
        matrix_descriptor(plan.queries(query_stage) + warpgroup * 64 * kPanelRowBytes, P::kQueryPanelBytes);
    const uint64_t keys = matrix_descriptor(plan.keys(stage), P::kKeyPanelBytes);
#pragma unroll
    for (int k = 0; k < kHeadSize / 16; ++k)
      multiply_rows<T>(score, advance(queries, k / 4 * P::kQueryPanelBytes + k % 4 * 32),
                       advance(keys, k / 4 * P::kKeyPanelBytes + k % 4 * 32), k > 0);
    commit_products();
  }

  // 16 keys are 16 rows of every panel.
  __device__ __forceinline__ void start_means(uint32_t stage) {
    const uint64_t values = matrix_descriptor(plan.values(stage), P::kKeyPanelBytes);
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) multiply_by_rows<T>(mean, weight[k], advance(values, k * 16 * kPanelRowBytes));
    commit_products();
  }

  // Where the rows of an item are stored.
  struct Place {
    int kv_head, first_row, rows, query_start;
  };
  // The queries of an item that this warpgroup has, and the keys they see.
  struct Rows {
    Place place;
    int first_key, tiles;
    bool fence;  // threads have copied some of its queries, keys or values
    VisibleKeys mine[2];
    VisibleKeys all;  // that every row sees
  };

  // Caps the scores of keys from `first` on and masks keys that a row does not see. Most tiles are inside of what every
  // row of the warpgroup sees.
  __device__ __forceinline__ void mask(int first, const Rows& rows) {
    if constexpr (kCapped) {
      const float before = call.scale / call.soft_cap;
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i) score[i] = tanh_quick(score[i] * before);
    }
    if (first >= rows.all.first && first + kKeys <= rows.all.last) return;
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) {
      const int j = first + 2 * quad + i / 4 * 8 + i % 2;
      if (j < rows.mine[i / 2 % 2].first || j >= rows.mine[i / 2 % 2].last) score[i] = -INFINITY;
    }
  }

  // Weights replace the scores: the layout of a sum is the layout of the next product's left factor.
  __device__ __forceinline__ void pack_weights() {
#pragma unroll
    for (int i = 0; i < kKeys / 4; ++i) weight[i / 4][i % 4] = pack_two<T>(score[2 * i], score[2 * i + 1]);
  }

  __device__ __forceinline__ void shrink_means(const float (&shrink)[2]) {
    if (!__any_sync(kAllLanes, shrink[0] != 1 || shrink[1] != 1)) return;
#pragma unroll
    for (int i = 0; i < kHeadSize / 2; ++i) mean[i] *= shrink[i / 2 % 2];
  }

  // Waits for item number `number` of this block and its queries; false: there is none, and `rows` stays.
  __device__ __forceinline__ bool next(Rows& rows, uint32_t number) const {
    const Turn<P::kQueryStages> turn(number);
    wait_phase(plan.queries_full(turn.stage), turn.phase);
    const ItemRecord item = plan.read_record(turn.stage);
    __syncwarp();  // every lane has read it before one releases it
    if (item.first_key == item.last_key) return false;
    rows.place = {item.kv_head, item.first_row, item.rows, item.query_start};
    rows.tiles = tiles_of<kHeadSize>(item.first_key, item.last_key);
    rows.first_key = item.first_key;
#pragma unroll
    for (int r = 0; r < 2; ++r)
      rows.mine[r] = visible_keys(call, item.context + query_of(my_row(item.first_row, r), group), item.key_len);
    rows.fence = !P::kBoxes || !boxes.queries || !boxes.keys || (item.last_key - item.first_key) % kKeys != 0;
    const int first_row = item.first_row + 64 * warpgroup, last_row = min(first_row + 64, item.rows) - 1;
    rows.all = {visible_keys(call, item.context + query_of(last_row, group), item.key_len).first,
                visible_keys(call, item.context + query_of(first_row, group), item.key_len).last};
    return true;
  }

  // All tiles of all items are one sequence: the scores of an item's first tile are started together with the last
  // weighted values of the item before.
  __device__ __forceinline__ void run() {
    if (warpgroup == 1) come_by(1, 2 * kWarpgroup);
    Rows rows;                     // whose scores are computed
    uint32_t tile = 0, items = 0;  // counted over all items
    if (!next(rows, items)) return;
    RunningSoftmax softmax;
    float shrink[2];
    wait_for_tile(plan.keys_full(0), 0);
    hold(score);
    begin_products();
    start_scores(0, 0);
    wait_products<0>();
    hold(score);
    release(plan.keys_empty(0));
    mask(rows.first_key, rows);
    softmax.weigh(score, scale, shrink);
    clear_means();
    bool started = false;  // weighted values of this item
    int i = 0;             // of the tile in its item

    // The wait for the means is at the top of the loop, after a jump: in straight-line code the assembler would move it
    // before the computation of the weights.
    for (;; ++tile) {
      const bool ends = ++i == rows.tiles;
      const Place place = rows.place;  // of the means
      bool fence = rows.fence;
      if (ends) release(plan.queries_empty(Turn<P::kQueryStages>(items).stage), boxes.every_lane);
      finish_means(started, tile - 1, shrink);
      if (ends) {
        if (!next(rows, ++items)) break;
        i = 0;
        fence |= rows.fence;
      }
      const Turn<P::kQueryStages> queries_turn(items);
      const TileTurn upcoming(tile + 1), current(tile);
      wait_phase(plan.keys_full(upcoming.stage), upcoming.phase);
      wait_phase(plan.values_full(current.stage), current.phase);
      if (fence) show_shared_memory_to_products();
      meet(1 + warpgroup, 2 * kWarpgroup);
      hold(score);
      hold(mean);
      hold(weight);
      begin_products();
      start_scores(upcoming.stage, queries_turn.stage);
      start_means(current.stage);
      come_by(2 - warpgroup, 2 * kWarpgroup);
      wait_products<1>();
      hold(score);
      release(plan.keys_empty(upcoming.stage));
      mask(rows.first_key + i * kKeys, rows);
      const RunningSoftmax before = softmax;
      if (ends) softmax = RunningSoftmax();
      softmax.weigh(score, scale, shrink);
      hold(score);
      started = !ends;
      if (ends) {
        wait_products<0>();
        hold(mean);
        release(plan.values_empty(current.stage));
        store(place, before);
        clear_means();
      }
    }

    const TileTurn end(tile);
    wait_for_tile(plan.values_full(end.stage), end.phase);
    hold(mean);
    hold(weight);
    begin_products();
    start_means(end.stage);
    wait_products<0>();
    hold(mean);
    release(plan.values_empty(end.stage));
    store(rows.place, softmax);
  }

  __device__ __forceinline__ void clear_means() {
#pragma unroll
    for (int i = 0; i < kHeadSize / 2; ++i) mean[i] = 0;
  }

  // Waits for the means of `tile`, if they were started, and prepares those of the next tile, whose weights have just
  // been computed.
  __device__ __forceinline__ void finish_means(bool started, uint32_t tile, const float (&shrink)[2]) {
    wait_products<0>();
    hold(mean);
    if (started) release(plan.values_empty(TileTurn(tile).stage));
    pack_weights();
    shrink_means(shrink);
  }

  // A lane holds 2 of 8 neighbouring elements; after an exchange it holds all 8 and stores 16 bytes.
  __device__ __forceinline__ void store(const Place& place, const RunningSoftmax& softmax) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int at = my_row(place.first_row, r), query = query_of(at, group),
                head = place.kv_head * group + at - query * group;
      const float inverse = softmax.inverse(r, sink_weight(call, head, softmax.largest[r] * scale));
      T* out = static_cast<T*>(call.out) + (place.query_start + query) * call.out_strides.token +
               head * call.out_strides.head + 8 * quad;
#pragma unroll
      for (int n = 0; n < kHeadSize / 8; n += 4) {
        uint32_t part[4];
#pragma unroll
        for (int b = 0; b < 4; ++b)
          part[b] = pack_two<T>(mean[4 * (n + b) + 2 * r] * inverse, mean[4 * (n + b) + 2 * r + 1] * inverse);
        transpose_among_four(part);
        if (at < place.rows && 8 * (n + quad) < call.head_size)
          *reinterpret_cast<uint4*>(out + 8 * n) = make_uint4(part[0], part[1], part[2], part[3]);
      }
    }
  }
};

}  // namespace fk::cuda::warpgroups
