// The warpgroup that fills shared memory with rows of x, which it gathers, and rows of the matrices.
#pragma once

#include "backend/cuda/device/tile.cuh"
#include "backend/cuda/experts/wgmma_plan.cuh"

namespace fk::cuda::expert_tiles {

// Eight threads copy 128 bytes of a row, so the warpgroup does 16 rows at a time.
template <class T, ExpertsEpilogue kEpilogue>
__device__ __forceinline__ void load_tiles(const ExpertsCall& call, const Ring& ring) {
  constexpr int kAtOnce = kWarpgroup / 8, kXPasses = kRows / kAtOnce, kWeightPasses = kWeightRows / kAtOnce;
  // Half a tile of gated rows is gates, the other half ups; where the two alternate, they are loaded as they lie.
  constexpr bool kHalves = kEpilogue == ExpertsEpilogue::kSiluAndMul;
  constexpr int kPart = kHalves ? kWeightRows / 2 : kWeightRows;
  const int row = static_cast<int>(threadIdx.x) % kWarpgroup / 8, chunk = static_cast<int>(threadIdx.x) % 8;
  const int weight_rows = kEpilogue == ExpertsEpilogue::kPlain ? call.features : 2 * call.features;
  const int part_rows = kHalves ? call.features : weight_rows;
  const uint32_t place = panel_place(row, chunk);
  RingPlace at{.parity = 1};  // all stages are empty at first
  for_tiles<kEpilogue>(call, [&](const RowTile& tile) {
    const T* x[kXPasses];
    uint32_t x_valid = 0;
#pragma unroll
    for (int i = 0; i < kXPasses; ++i) {
      const int position = tile.first + row + i * kAtOnce;
      const int pair = call.sorted[min(position, tile.last - 1)];
      x[i] = static_cast<const T*>(call.x) + pair / call.pairs_per_row * call.x_stride + 8 * chunk;
      if (position < tile.last) x_valid |= 1u << i;
    }
    const int first_row = tile.column * kPart + row;  // of its part
    const T* weight = static_cast<const T*>(call.weight) +
                      (static_cast<int64_t>(tile.expert) * weight_rows + first_row) * call.length + 8 * chunk;
    const int64_t pass = static_cast<int64_t>(kAtOnce) * call.length;
    const int64_t to_ups = static_cast<int64_t>(part_rows - kPart) * call.length;
    for (int k = 0; k < call.length; k += kPanel, at.next(kStages)) {
      const bool inside = k + 8 * chunk < call.length;
      wait_phase(ring.empty(at.slot), at.parity);
      const uint32_t x_to = ring.x(at.slot) + place, weight_to = ring.weight(at.slot) + place;
#pragma unroll
      for (int i = 0; i < kXPasses; ++i) {
        const bool valid = inside && (x_valid >> i & 1u) != 0;
        copy_async(x_to + i * kAtOnce * kPanelRowBytes, valid ? x[i] + k : x[i], valid);
      }
#pragma unroll
      for (int i = 0; i < kWeightPasses; ++i) {
        const bool up = kHalves && i >= kWeightPasses / 2;
        const int in_part = up ? i - kWeightPasses / 2 : i;
        const bool valid = inside && first_row + in_part * kAtOnce < part_rows;
        const T* from = weight + i * pass + (up ? to_ups : 0) + k;
        copy_async(weight_to + i * kAtOnce * kPanelRowBytes, valid ? from : static_cast<const T*>(call.weight), valid);
      }
      arrive_after_copies(ring.full(at.slot));
    }
  });
  commit_copies();
  wait_copies<0>();
}

}  // namespace fk::cuda::expert_tiles
