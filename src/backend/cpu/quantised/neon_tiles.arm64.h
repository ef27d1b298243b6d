// Quantised products of many rows of x with SDOT: tiles of 8 tokens by 8 rows of weights, both as int8 in packed order.
//
// A word of four codes along k is what SDOT multiplies; packed, a register holds such words of four rows. Weights are
// unpacked in blocks that fit in L1 and used for all tokens.
#pragma once

#include "backend/cpu/quantised/neon_kernels.arm64.h"
#include "ops/formats/weight_format.h"

namespace fk {

inline constexpr int64_t kTileRows = kPanelRows;

// All rows of x in packed order, in memory of the arena.
struct PackedRows {
  int64_t tiles = 0, k = 0;
  int8_t* codes = nullptr;  // [tiles][k / 4][8][4]
  float* scales = nullptr;  // [tiles][k / 32][8]
  float* sums = nullptr;    // likewise

  int64_t groups() const { return k / kRoundedGroup; }
};
PackedRows pack_rows(const RoundedRows& x, Arena& arena, ThreadPool& pool);

// The work of a thread: 32 rows of weights with some tiles of x.
inline constexpr int64_t kTaskRows = 32;
inline constexpr int64_t kTaskTiles = 64;
struct TilesTask {
  const NeonFormat* kernels;
  const WeightFormat* format;
  const std::byte* panels;  // of weights
  int64_t rows;             // up to kTaskRows
  const PackedRows* x;
  int64_t first_tile, tiles;  // up to kTaskTiles
  std::byte* scratch;         // tiles_scratch_bytes(tiles)
};
int64_t tiles_scratch_bytes(int64_t tiles);
// The sums [tiles][8 tokens][kTaskRows], inside the scratch.
const float* multiply_tiles(const TilesTask& task);

}  // namespace fk
