// Roles of the warpgroups of a block in wgmma.cu (one loads, two multiply), the layout of shared memory, and the tiles.
//
// Every block reads its rows of W and of x from the L2, which delivers about 6 TB/s on an H200: with tiles of 256 rows
// of W by 128 pairs that is 500 TFLOP/s, so tiles are as large as registers allow.
#pragma once

#include "backend/cuda/device/cluster.cuh"
#include "backend/cuda/device/mbarrier.cuh"
#include "backend/cuda/device/ring_place.cuh"
#include "backend/cuda/device/wgmma.cuh"
#include "backend/cuda/experts/row_tile.cuh"

namespace fk::cuda::expert_tiles {

inline constexpr int kWarpgroup = 128;
inline constexpr int kMultipliers = 2;  // warpgroups
inline constexpr int kThreads = kWarpgroup * (kMultipliers + 1);
inline constexpr int kPart = 64;                                   // rows of W of a product
inline constexpr int kParts = 2;                                   // of a warpgroup
inline constexpr int kPairs = 192;                                 // of a tile, at most
inline constexpr int kWeightRows = kPart * kParts * kMultipliers;  // of a tile
inline constexpr int kPanel = 64;                                  // columns of a stage
inline constexpr int kStages = 4;
inline constexpr uint32_t kPartBytes = kPart * kPanelRowBytes;
inline constexpr uint32_t kWeightBytes = kWeightRows * kPanelRowBytes;
inline constexpr uint32_t kStageBytes = kWeightBytes + kPairs * kPanelRowBytes;
inline constexpr uint32_t kBarriersAt = kStages * kStageBytes;
inline constexpr size_t kSharedBytes = kBarriersAt + 16 * kStages + kPatternBytes;  // the start is rounded up
// 65536 registers: compiled for 168 each, then (2 * 232 + 40) * 128 = 64512.
inline constexpr int kLoaderRegisters = 40, kMultiplierRegisters = 232;

struct Ring {
  uint32_t base;

  __device__ __forceinline__ uint32_t weight(int slot) const {
    return base + static_cast<uint32_t>(slot) * kStageBytes;
  }
  __device__ __forceinline__ uint32_t x(int slot) const { return weight(slot) + kWeightBytes; }
  // Full: all copies are complete. Empty: every multiplying warp has read it.
  __device__ __forceinline__ uint32_t full(int slot) const {
    return base + kBarriersAt + static_cast<uint32_t>(16 * slot);
  }
  __device__ __forceinline__ uint32_t empty(int slot) const { return full(slot) + 8; }

  __device__ __forceinline__ void make_barriers() const {
    for (int i = 0; i < kStages; ++i) {
      init_barrier(full(i), kWarpgroup + 1);  // every loading thread for x, one for W
      init_barrier(empty(i), kMultipliers * kWarpgroup / 32);
    }
    show_barriers_to_cluster();  // and to the copy engine
  }
};

// Features of a tile.
template <ExpertsEpilogue kEpilogue>
constexpr int tile_features() {
  return kEpilogue == ExpertsEpilogue::kPlain ? kWeightRows : kWeightRows / 2;
}

// The first row of W, in its expert, of a part of a tile. Where gates come before ups, a warpgroup has one part of
// each, so that a thread holds both sums of a feature; where they alternate, rows are taken as they lie.
template <ExpertsEpilogue kEpilogue>
__device__ __forceinline__ int part_row(const ExpertsCall& call, const RowTile& tile, int warpgroup, int part) {
  if constexpr (kEpilogue == ExpertsEpilogue::kSiluAndMul)
    return part * call.features + tile.column * tile_features<kEpilogue>() + warpgroup * kPart;
  else
    return tile.column * kWeightRows + (warpgroup * kParts + part) * kPart;
}

// The tiles of this block, the same for loader and multipliers.
template <ExpertsEpilogue kEpilogue, class Visit>
__device__ __forceinline__ void for_tiles(const ExpertsCall& call, const Visit& visit) {
  const int columns = (call.features + tile_features<kEpilogue>() - 1) / tile_features<kEpilogue>();
  for (int index = static_cast<int>(blockIdx.x);; index += static_cast<int>(gridDim.x)) {
    const RowTile tile = row_tile<kPairs>(call.offsets, call.experts, columns, index);
    if (tile.expert < 0) break;
    visit(tile);
  }
}

}  // namespace fk::cuda::expert_tiles
