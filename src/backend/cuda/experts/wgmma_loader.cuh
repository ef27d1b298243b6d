// The warpgroup that fills shared memory: rows of the matrices by the copy engine, rows of x, which are gathered, by
// its threads.
#pragma once

#include "backend/cuda/device/bulk_copy.cuh"
#include "backend/cuda/device/tile.cuh"
#include "backend/cuda/experts/wgmma_plan.cuh"

namespace fk::cuda::expert_tiles {

// Eight threads copy 128 bytes of a row, so the warpgroup does 16 rows at a time. A lane keeps the row numbers of two
// pairs for its warp. Pairs beyond the last get no copy: their sums are not used.
template <class T, ExpertsEpilogue kEpilogue>
__device__ __forceinline__ void load_tiles(const ExpertsCall& call, const CUtensorMap& weight, const Ring& ring) {
  constexpr int kAtOnce = kWarpgroup / 8, kPasses = kPairs / kAtOnce;
  static_assert(kPasses <= 16);
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroup, lane = thread % 32, chunk = thread % 8;
  const int weight_rows = kEpilogue == ExpertsEpilogue::kPlain ? call.features : 2 * call.features;
  const uint32_t place = panel_place(thread / 8, chunk);
  const T* const x = static_cast<const T*>(call.x) + 8 * chunk;
  const int stride = static_cast<int>(call.x_stride);
  RingPlace at{.parity = 1};  // all stages are empty at first
  for_tiles<kEpilogue>(call, [&](const RowTile& tile) {
    const int pairs = tile.last - tile.first;
    int rows[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int in_tile = thread / 32 * 4 + lane % 4 + (8 * i + lane / 4) * kAtOnce;
      rows[i] = call.sorted[min(tile.first + in_tile, tile.last - 1)] / call.pairs_per_row;
    }
    const int first_row = tile.expert * weight_rows;
    for (int k = 0; k < call.length; k += kPanel, at.next(kStages)) {
      wait_phase(ring.empty(at.slot), at.parity);
      if (thread == 0) {
        arrive_expecting(ring.full(at.slot), kWeightBytes);
#pragma unroll
        for (int i = 0; i < kMultipliers * kParts; ++i)
          copy_box(ring.weight(at.slot) + i * kPartBytes, weight, k,
                   first_row + part_row<kEpilogue>(call, tile, i / kParts, i % kParts), ring.full(at.slot));
      }
      __syncwarp();
      const bool inside = k + 8 * chunk < call.length;
      const uint32_t to = ring.x(at.slot) + place;
#pragma unroll
      for (int i = 0; i < kPasses; ++i) {
        if (i * kAtOnce >= pairs) break;
        const int row = __shfl_sync(kAllLanes, rows[i / 8], i % 8 * 4 + lane / 8);
        const T* from = x + static_cast<int64_t>(row) * stride;
        copy_async(to + i * kAtOnce * kPanelRowBytes, inside ? from + k : from - 8 * chunk, inside);
      }
      arrive_after_copies(ring.full(at.slot));
    }
  });
  commit_copies();
  wait_copies<0>();
}

}  // namespace fk::cuda::expert_tiles
