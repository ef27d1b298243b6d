// Roles of the warpgroups of a block in wgmma.cu (one loads, two multiply), the layout of shared memory, and the tiles.
#pragma once

#include "backend/cuda/device/mbarrier.cuh"
#include "backend/cuda/device/ring_place.cuh"
#include "backend/cuda/device/wgmma.cuh"
#include "backend/cuda/experts/row_tile.cuh"

namespace fk::cuda::expert_tiles {

inline constexpr int kWarpgroup = 128;
inline constexpr int kMultipliers = 2;  // warpgroups
inline constexpr int kThreads = kWarpgroup * (kMultipliers + 1);
inline constexpr int kRows = 64 * kMultipliers;  // pairs of a tile
inline constexpr int kWeightRows = 256;          // rows of W of a tile
inline constexpr int kSums = kWeightRows / 2;    // that a thread has
inline constexpr int kPanel = 64;                // columns of a stage
inline constexpr int kStages = 4;
inline constexpr uint32_t kXBytes = kRows * kPanelRowBytes, kStageBytes = kXBytes + kWeightRows * kPanelRowBytes;
inline constexpr uint32_t kBarriersAt = kStages * kStageBytes;
inline constexpr size_t kSharedBytes = kBarriersAt + 16 * kStages + kPatternBytes;  // the start is rounded up
// 65536 registers: compiled for 168 each, then (2 * 208 + 88) * 128 = 64512.
inline constexpr int kLoaderRegisters = 88, kMultiplierRegisters = 208;

struct Ring {
  uint32_t base;

  __device__ __forceinline__ uint32_t x(int slot) const { return base + static_cast<uint32_t>(slot) * kStageBytes; }
  __device__ __forceinline__ uint32_t weight(int slot) const { return x(slot) + kXBytes; }
  // Full: the loaders' copies are complete. Empty: every multiplying warp has read it.
  __device__ __forceinline__ uint32_t full(int slot) const {
    return base + kBarriersAt + static_cast<uint32_t>(16 * slot);
  }
  __device__ __forceinline__ uint32_t empty(int slot) const { return full(slot) + 8; }

  __device__ __forceinline__ void make_barriers() const {
    for (int i = 0; i < kStages; ++i) {
      init_barrier(full(i), kWarpgroup);
      init_barrier(empty(i), kMultipliers * kWarpgroup / 32);
    }
  }
};

// Features of a tile.
template <ExpertsEpilogue kEpilogue>
constexpr int tile_features() {
  return kEpilogue == ExpertsEpilogue::kPlain ? kWeightRows : kWeightRows / 2;
}

// The tiles of this block, the same for loader and multipliers.
template <ExpertsEpilogue kEpilogue, class Visit>
__device__ __forceinline__ void for_tiles(const ExpertsCall& call, const Visit& visit) {
  const int columns = (call.features + tile_features<kEpilogue>() - 1) / tile_features<kEpilogue>();
  for (int index = static_cast<int>(blockIdx.x);; index += static_cast<int>(gridDim.x)) {
    const RowTile tile = row_tile<kRows>(call.offsets, call.experts, columns, index);
    if (tile.expert < 0) break;
    visit(tile);
  }
}

}  // namespace fk::cuda::expert_tiles
