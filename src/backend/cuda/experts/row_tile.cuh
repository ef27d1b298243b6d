// Tiles of the sorted pairs: an expert's pairs in tiles of at most so many rows, each times `columns` tiles of
// features. How many there are is known on the device only, so grids are upper bounds, and a tile that does not exist
// has no expert.
#pragma once

#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/experts/call.h"

namespace fk::cuda {

struct RowTile {
  int expert = -1;  // none: there are fewer tiles
  int first = 0;    // in the sorted pairs
  int last = 0;     // one past the end
  int column = 0;
};

// Tile `index` of an expert with the pairs from `begin` on. They are divided evenly, in multiples of 8: no tile has
// only a few.
__device__ __forceinline__ RowTile tile_of_expert(int expert, int begin, int end, int most, int index) {
  const int row_tiles = (end - begin + most - 1) / most;
  const int each = ((end - begin + row_tiles - 1) / row_tiles + 7) / 8 * 8;
  const int start = begin + index % row_tiles * each;
  return {expert, start, min(start + each, end), index / row_tiles};
}

// Tiles of one expert follow each other, those of the same columns first, so that they share the matrix in the cache.
// By all lanes of a warp, which each look at kEach experts at once.
__device__ __forceinline__ RowTile row_tile(const int32_t* offsets, int experts, int columns, int most, int index) {
  constexpr int kEach = 4;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int first = 0; first < experts; first += 32 * kEach) {
    int at[kEach + 1], tiles[kEach], all = 0;
#pragma unroll
    for (int i = 0; i <= kEach; ++i) at[i] = offsets[min(first + lane * kEach + i, experts)];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      tiles[i] = (at[i + 1] - at[i] + most - 1) / most * columns;
      all += tiles[i];
    }
    int through = all;  // this lane's tiles and those of all lanes before
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int before = __shfl_up_sync(kAllLanes, through, distance);
      if (lane >= distance) through += before;
    }
    const unsigned reached = __ballot_sync(kAllLanes, index < through);
    if (reached == 0) {
      index -= __shfl_sync(kAllLanes, through, 31);
      continue;
    }
    int rest = index - (through - all), expert = 0, begin = 0, end = 0, inside = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (rest >= 0 && rest < tiles[i]) {
        expert = first + lane * kEach + i;
        begin = at[i];
        end = at[i + 1];
        inside = rest;
      }
      rest -= tiles[i];
    }
    const int owner = __ffs(static_cast<int>(reached)) - 1;
    expert = __shfl_sync(kAllLanes, expert, owner);
    begin = __shfl_sync(kAllLanes, begin, owner);
    end = __shfl_sync(kAllLanes, end, owner);
    inside = __shfl_sync(kAllLanes, inside, owner);
    return tile_of_expert(expert, begin, end, most, inside);
  }
  return {};
}

template <int kRows>
__device__ __forceinline__ RowTile row_tile(const int32_t* offsets, int experts, int columns, int index) {
  static_assert(kRows % 8 == 0);
  return row_tile(offsets, experts, columns, kRows, index);
}

// So many tiles of rows there are at most.
inline int64_t most_row_tiles(const ExpertsCall& call, int rows) {
  return call.pairs / rows + (call.pairs < call.experts ? call.pairs : call.experts);
}

}  // namespace fk::cuda
