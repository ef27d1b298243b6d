// The warpgroup that fills shared memory: rows of the matrices by the copy engine, rows of x, which are gathered, by
// its threads.
#pragma once

#include "backend/cuda/device/bulk_copy.cuh"
#include "backend/cuda/device/tile.cuh"
#include "backend/cuda/experts/wgmma_plan.cuh"

namespace fk::cuda::expert_tiles {

// Eight threads copy 128 bytes of a row, so the warpgroup does 16 rows at a time. A lane keeps the row numbers of two
// pairs for its warp. Pairs beyond the last get no copy: their sums are not used.
template <class T, ExpertsEpilogue kEpilogue, int kBlocks>
__device__ __forceinline__ void load_tiles(const ExpertsCall& call, const CUtensorMap& weight,
                                           const Ring<kBlocks>& ring) {
  constexpr int kAtOnce = kWarpgroup / 8, kPasses = kPairs / kAtOnce;
  static_assert(kPasses <= 16);
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroup, lane = thread % 32, chunk = thread % 8;
  const int weight_rows = is_gated(kEpilogue) ? 2 * call.features : call.features;
  const uint32_t place = panel_place(thread / 8, chunk);
  const T* const x = static_cast<const T*>(call.x) + 8 * chunk;
  const int stride = static_cast<int>(call.x_stride);
  // The parts of this block, for all blocks of the cluster.
  auto load_weights = [&](const RowTile& tile, int first_row, int k, int slot) {
    constexpr int kMine = kMultipliers * kParts / kBlocks;
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const int part = kBlocks <= 1 ? i : static_cast<int>(block_of_cluster()) * kMine + i;
      const int row = first_row + part_row<kEpilogue>(call, tile, part / kParts, part % kParts);
      const uint32_t to = ring.weight(slot) + static_cast<uint32_t>(part) * kPartBytes;
      if constexpr (kBlocks <= 1)
        copy_box(to, weight, k, row, ring.full(slot));
      else
        copy_box_to((1 << kBlocks) - 1, to, weight, k, row, ring.full(slot));
    }
  };
  RingPlace at{.parity = 1};  // all stages are empty at first
  for_tiles<kEpilogue, kBlocks>(call, [&](const RowTile& tile) {
    const int pairs = tile.last - tile.first;
    int rows[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int in_tile = thread / 32 * 4 + lane % 4 + (8 * i + lane / 4) * kAtOnce;
      rows[i] = kBlocks <= 1 || pairs > 0
                    ? pair_at<kBlocks>(call, min(tile.first + in_tile, tile.last - 1)) / call.pairs_per_row
                    : 0;
    }
    const int first_row = tile.expert * weight_rows;
    for (int k = 0; k < call.length; k += kPanel, at.next(kStages)) {
      wait_some_time<kBlocks>(ring.empty(at.slot), at.parity);
      if (thread == 0) {
        arrive_expecting(ring.full(at.slot), kWeightBytes);
        load_weights(tile, first_row, k, at.slot);
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

// All of it by the copy engine: one thread is enough. Of x as many boxes as the tile has pairs for; rows of the next
// expert in the last one are not used.
template <ExpertsEpilogue kEpilogue>
__device__ __forceinline__ void load_tiles_in_order(const ExpertsCall& call, const CUtensorMap& weight,
                                                    const CUtensorMap& x, const Ring<kRowsInOrder>& ring) {
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroup;
  if (thread >= 32) return;
  const int weight_rows = is_gated(kEpilogue) ? 2 * call.features : call.features;
  RingPlace at{.parity = 1};  // all stages are empty at first
  for_tiles<kEpilogue, kRowsInOrder>(call, [&](const RowTile& tile) {
    const int boxes = (tile.last - tile.first + kPart - 1) / kPart;
    const int first_row = tile.expert * weight_rows;
    for (int k = 0; k < call.length; k += kPanel, at.next(kStages)) {
      wait_phase(ring.empty(at.slot), at.parity);
      if (thread == 0) {
        arrive_expecting(ring.full(at.slot), kWeightBytes + static_cast<uint32_t>(boxes) * kPartBytes);
#pragma unroll
        for (int part = 0; part < kMultipliers * kParts; ++part)
          copy_box(ring.weight(at.slot) + static_cast<uint32_t>(part) * kPartBytes, weight, k,
                   first_row + part_row<kEpilogue>(call, tile, part / kParts, part % kParts), ring.full(at.slot));
        for (int box = 0; box < boxes; ++box)
          copy_box(ring.x(at.slot) + static_cast<uint32_t>(box) * kPartBytes, x, k, tile.first + box * kPart,
                   ring.full(at.slot));
      }
      __syncwarp();
    }
  });
}

}  // namespace fk::cuda::expert_tiles
