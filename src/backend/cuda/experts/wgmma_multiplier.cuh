// ExpertsMultiplier: the products of 128 rows of W with the pairs of a tile by one warpgroup, over the stages that the
// loader fills.
#pragma once

#include "backend/cuda/attention/warpgroup_multiplier.cuh"
#include "backend/cuda/experts/epilogue.cuh"
#include "backend/cuda/experts/wgmma_plan.cuh"

namespace fk::cuda::expert_tiles {

// Of 8 x 8 elements, two in a register: lane l has row l / 4, columns 2 (l % 4) and the next; afterwards column l / 4.
__device__ __forceinline__ uint32_t transposed(uint32_t two) {
  uint32_t other;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(other) : "r"(two));
  return other;
}

template <class T, ExpertsEpilogue kEpilogue, int kBlocks>
struct ExpertsMultiplier {
  static constexpr int kKept = kPairs / 32;  // positions of pairs that a lane keeps

  const ExpertsCall& call;
  Ring<kBlocks> ring;
  int warpgroup;
  int warp = static_cast<int>(threadIdx.x) % kWarpgroup / 32, lane = static_cast<int>(threadIdx.x) % 32;
  int quad = lane % 4;
  float sum[kParts][kPairs / 2];  // rows of W by pairs

  __device__ __forceinline__ void run() {
    RingPlace at;
    for_tiles<kEpilogue, kBlocks>(call, [&](const RowTile& tile) {
      if (kBlocks <= 1 || tile.last > tile.first) {
        multiply_tile_of(tile.last - tile.first, at);
        store(tile);
      } else {
        // No pairs: this block only loads its part of W for the other.
        for (int k = 0; k < call.length; k += kPanel, at.next(kStages)) {
          wait_some_time<kBlocks>(ring.full(at.slot), at.parity);
          ring.release(at.slot);
        }
      }
    });
  }

  // Products of the smallest width that holds the pairs. Clusters are made for many.
  __device__ __forceinline__ void multiply_tile_of(int pairs, RingPlace& at) {
    if (kBlocks <= 1 && pairs <= 16)
      multiply<kBlocks <= 1 ? 16 : 96>(at);
    else if (kBlocks <= 1 && pairs <= 32)
      multiply<kBlocks <= 1 ? 32 : 96>(at);
    else if (kBlocks <= 1 && pairs <= 64)
      multiply<kBlocks <= 1 ? 64 : 96>(at);
    else if (pairs <= 96)
      multiply<96>(at);
    else if (pairs <= 128)
      multiply<128>(at);
    else if (pairs <= 160)
      multiply<160>(at);
    else if (pairs <= 176)
      multiply<176>(at);
    else
      multiply<kPairs>(at);
  }

  // The products of a stage run while those of the next are started.
  template <int kWidth>
  __device__ __forceinline__ void multiply(RingPlace& at) {
    int before = -1;  // the slot of the stage before
    for (int k = 0; k < call.length; k += kPanel, at.next(kStages)) {
      wait_some_time<kBlocks>(ring.full(at.slot), at.parity);
      if constexpr (kBlocks != kRowsInOrder) show_shared_memory_to_products();
      const uint64_t x = matrix_descriptor(ring.x(at.slot), 0);
      const uint64_t w =
          matrix_descriptor(ring.weight(at.slot) + static_cast<uint32_t>(warpgroup) * kParts * kPartBytes, 0);
      begin_products();
#pragma unroll
      for (int i = 0; i < kPanel / 16; ++i)
#pragma unroll
        for (int part = 0; part < kParts; ++part)
          multiply_rows<T, kWidth / 2>(sum[part], advance(w, part * kPartBytes + 32 * i), advance(x, 32 * i),
                                       k > 0 || i > 0);
      commit_products();
      wait_products<1>();
      if (before >= 0) ring.release(before);
      before = at.slot;
    }
    wait_products<0>();
    hold(sum[0]);
    hold(sum[1]);
    ring.release(before);
  }

  __device__ __forceinline__ void store(const RowTile& tile) {
    int kept[kKept];  // rows of the result, for all lanes
#pragma unroll
    for (int i = 0; i < kKept; ++i) kept[i] = pair_at<kBlocks>(call, min(tile.first + 32 * i + lane, tile.last - 1));
    float bias[kParts][2];
#pragma unroll
    for (int part = 0; part < kParts; ++part)
#pragma unroll
      for (int r = 0; r < 2; ++r) bias[part][r] = bias_at(tile, part, warp * 16 + lane / 4 + 8 * r);
    if constexpr (kEpilogue == ExpertsEpilogue::kSwigluOAI) {
#pragma unroll
      for (int part = 0; part < kParts; ++part) store_alternating(tile, part, bias[part], kept);
    } else if constexpr (kEpilogue == ExpertsEpilogue::kSiluAndMul) {
      store_rows(tile, 0, kept, [&](int n, int r, int j) {
        const int i = 4 * n + 2 * r + j;
        return gated<kEpilogue, T>(call, sum[0][i] + bias[0][r], sum[1][i] + bias[1][r]);
      });
    } else {
#pragma unroll
      for (int part = 0; part < kParts; ++part)
        store_rows(tile, part, kept, [&](int n, int r, int j) { return sum[part][4 * n + 2 * r + j] + bias[part][r]; });
    }
  }

  // Of row `row` of a part; none for rows after those of the expert.
  __device__ __forceinline__ float bias_at(const RowTile& tile, int part, int row) const {
    const int rows = is_gated(kEpilogue) ? 2 * call.features : call.features;
    const int of_expert = part_row<kEpilogue>(call, tile, warpgroup, part) + row;
    return of_expert < rows ? bias_of<T>(call, rows, tile.expert, of_expert) : 0.0f;
  }

  // The row of the result for pair 8 n + in_group of the tile; all lanes take part, n is even or the same for all.
  __device__ __forceinline__ T* out_row(const int (&kept)[kKept], int n, int in_group) const {
    const int row = __shfl_sync(kAllLanes, kept[n / 4], 8 * (n % 4) + in_group);
    return static_cast<T*>(call.out) + static_cast<int64_t>(row) * call.out_stride;
  }

  // value(n, r, j): for feature l / 4 + 8 r of the warp's 16, pair 8 n + 2 quad + j. A lane has two pairs of a feature;
  // after a transpose two features of a pair, after an exchange 8 features, which are 16 bytes.
  template <class Value>
  __device__ __forceinline__ void store_rows(const RowTile& tile, int part, const int (&kept)[kKept], Value value) {
    const int pairs = tile.last - tile.first;
    const int feature = part_row<kEpilogue>(call, tile, warpgroup, part) + warp * 16 + 8 * (quad % 2);
#pragma unroll
    for (int n = 0; n < kPairs / 8; n += 2) {
      if (8 * n >= pairs) break;
      uint32_t of[4];
#pragma unroll
      for (int b = 0; b < 4; ++b)
        of[b] = transposed(pack_two<T>(value(n + b / 2, b % 2, 0), value(n + b / 2, b % 2, 1)));
      warpgroups::transpose_among_four(of);
      const int in_two_groups = quad / 2 * 8 + lane / 4;
      T* const out = out_row(kept, n, in_two_groups);
      if (8 * n + in_two_groups < pairs && feature < call.features)
        *reinterpret_cast<uint4*>(out + feature) = make_uint4(of[0], of[1], of[2], of[3]);
    }
  }

  // After the transpose a lane has gate and up of one feature of a pair. Lanes exchange, so that each stores two
  // neighbouring features: an even one of the first four, an odd one of the next four.
  __device__ __forceinline__ void store_alternating(const RowTile& tile, int part, const float (&bias)[2],
                                                    const int (&kept)[kKept]) {
    const int pairs = tile.last - tile.first;
    const bool odd = (quad & 1) != 0;
    const int feature = part_row<kEpilogue>(call, tile, warpgroup, part) / 2 + warp * 8 + (odd ? 4 : 0) + (quad & 2);
#pragma unroll
    for (int n = 0; n < kPairs / 8; ++n) {
      if (8 * n >= pairs) break;
      float of[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int i = 4 * n + 2 * r;
        const uint32_t two = transposed(pack_two<T>(sum[part][i] + bias[r], sum[part][i + 1] + bias[r]));
        const T* both = reinterpret_cast<const T*>(&two);
        of[r] = gated<kEpilogue, T>(call, to_float(both[0]), to_float(both[1]));
      }
      const float other = __shfl_xor_sync(kAllLanes, odd ? of[0] : of[1], 1);
      const uint32_t both = odd ? pack_two<T>(other, of[1]) : pack_two<T>(of[0], other);
      T* const out = out_row(kept, n, lane / 4);
      if (8 * n + lane / 4 < pairs && feature < call.features) *reinterpret_cast<uint32_t*>(out + feature) = both;
    }
  }
};

}  // namespace fk::cuda::expert_tiles
