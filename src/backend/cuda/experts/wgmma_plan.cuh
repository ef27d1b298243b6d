// Roles of the warpgroups of a block in wgmma.cu (one loads, two multiply), the layout of shared memory, and the tiles.
//
// Every block reads its rows of W and of x from the L2, which delivers about 6 TB/s on an H200: with tiles of 256 rows
// of W by 128 pairs that is 500 TFLOP/s, so tiles are as large as registers allow. Where experts have many pairs, two
// blocks form a cluster: they have the same rows of W, of which each loads half for both, and different pairs.
#pragma once

#include <climits>

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

// As wait_phase(), but a kernel that waits for ever ends with an error: a second at least, where a wait takes
// microseconds.
// Only clusters wait so: the registers of the other kernel are all in use.
template <int kBlocks>
__device__ __forceinline__ void wait_some_time(uint32_t barrier, uint32_t parity) {
  if constexpr (kBlocks <= 1) return wait_phase(barrier, parity);
  constexpr unsigned kTries = 1u << 26;
  for (unsigned i = 0; !phase_ended(barrier, parity); ++i)
    if (i > kTries) __trap();
}

// kBlocks: of a cluster. kRowsInOrder: one block, for which rows of x lie in the order of the sorted pairs, so that the
// copy engine loads them, too.
inline constexpr int kRowsInOrder = 0;
template <int kBlocks>
struct Ring {
  uint32_t base;

  __device__ __forceinline__ uint32_t weight(int slot) const {
    return base + static_cast<uint32_t>(slot) * kStageBytes;
  }
  __device__ __forceinline__ uint32_t x(int slot) const { return weight(slot) + kWeightBytes; }
  // Full: all copies are complete. Empty: every multiplying warp of the cluster has read it.
  __device__ __forceinline__ uint32_t full(int slot) const {
    return base + kBarriersAt + static_cast<uint32_t>(16 * slot);
  }
  __device__ __forceinline__ uint32_t empty(int slot) const { return full(slot) + 8; }

  __device__ __forceinline__ void make_barriers() const {
    for (int i = 0; i < kStages; ++i) {
      // Every loading thread for x, unless the copy engine loads it, and one for W.
      init_barrier(full(i), kBlocks == kRowsInOrder ? 1 : kWarpgroup + 1);
      init_barrier(empty(i), (kBlocks > 1 ? kBlocks : 1) * kMultipliers * kWarpgroup / 32);
    }
    show_barriers_to_cluster();  // and to the copy engine
  }

  // One arrival per warp at the barrier of every block that fills this slot.
  __device__ __forceinline__ void release(int slot) const {
    const uint32_t lane = threadIdx.x % 32;
    if constexpr (kBlocks <= 1) {
      if (lane == 0) arrive(empty(slot));
    } else {
      if (lane < kBlocks) arrive_there(shared_of(empty(slot), lane));
    }
  }
};

// Features of a tile.
template <ExpertsEpilogue kEpilogue>
constexpr int tile_features() {
  return is_gated(kEpilogue) ? kWeightRows / 2 : kWeightRows;
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

// The place of a pair in x and out: its number as sorted by expert gives its own.
template <int kBlocks>
__device__ __forceinline__ int pair_at(const ExpertsCall& call, int position) {
  return kBlocks != 1 && call.sorted == nullptr ? position : call.sorted[position];
}

// So many pairs a tile of a cluster has at most. Smaller tiles load more for a product, but where the last round of
// tiles leaves most blocks idle, they are faster. By all lanes of a warp.
template <int kBlocks>
__device__ __forceinline__ int pairs_of_a_tile(const ExpertsCall& call, int columns) {
  constexpr int kMost = kBlocks * kPairs;
  if (call.pairs <= 64 * call.experts) return kMost;
  const int lane = static_cast<int>(threadIdx.x) % 32, clusters = static_cast<int>(gridDim.x) / kBlocks;
  int best = kMost, least = INT_MAX;
#pragma unroll 1
  for (int most = kMost; most >= kMost / 2; most -= kMost / 12) {
    int tiles = 0;
    for (int e = lane; e < call.experts; e += 32) {
      const int pairs = call.offsets == nullptr ? call.pairs : call.offsets[e + 1] - call.offsets[e];
      tiles += (pairs + most - 1) / most;
    }
    const int rounds = (__reduce_add_sync(kAllLanes, tiles) * columns + clusters - 1) / clusters;
    if (const int cost = rounds * (kWeightRows + most); cost < least) {
      least = cost;
      best = most;
    }
  }
  return best;
}

// The tiles of this block, the same for loader and multipliers. A tile of a cluster is divided among its blocks; the
// last one may have no pair.
template <ExpertsEpilogue kEpilogue, int kBlocks, class Visit>
__device__ __forceinline__ void for_tiles(const ExpertsCall& call, const Visit& visit) {
  const int columns = (call.features + tile_features<kEpilogue>() - 1) / tile_features<kEpilogue>();
  int most = kPairs;
  if constexpr (kBlocks > 1) most = pairs_of_a_tile<kBlocks>(call, columns);
  const int all = (call.pairs + most - 1) / most * columns;  // of a single expert
  constexpr int kOfCluster = kBlocks > 1 ? kBlocks : 1;
  for (int index = static_cast<int>(blockIdx.x) / kOfCluster;; index += static_cast<int>(gridDim.x) / kOfCluster) {
    RowTile tile;
    if (kBlocks <= 1 || call.offsets != nullptr)
      tile = row_tile(call.offsets, call.experts, columns, most, index);
    else if (index < all)
      tile = tile_of_expert(0, 0, call.pairs, most, index);
    if (tile.expert < 0) break;
    if constexpr (kBlocks > 1) {
      static_assert(kBlocks == 2);
      const int half = min(((tile.last - tile.first + 1) / 2 + 7) / 8 * 8, tile.last - tile.first);
      if (block_of_cluster() == 0)
        tile.last = tile.first + half;
      else
        tile.first += half;
    }
    visit(tile);
  }
}

}  // namespace fk::cuda::expert_tiles
