// Quantised products of many rows of x with SDOT: tiles of 8 tokens by 8 rows of weights, both as int8 in packed order.
//
// A word of four codes along k is what SDOT multiplies; packed, a register holds such words of four rows. Weights are
// unpacked in blocks that fit in L1 and used for all tokens.
#pragma once

#include "backend/cpu/quantised/neon_kernels.arm64.h"
#include "ops/formats/weight_format.h"

namespace fk {

inline constexpr int64_t kTileRows = kPanelRows;

// All rows of x in the order of tiles, in memory of the arena.
struct PackedRows {
  int64_t tiles = 0, k = 0;
  int8_t* codes = nullptr;
  float* scales = nullptr;
  float* sums = nullptr;

  int64_t groups() const { return k / kRoundedGroup; }
};

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
  std::byte* scratch;         // scratch_bytes(tiles)
};

// Tiles of SDOT; those of SMMLA have the same functions (mmla_tiles.arm64.h).
struct DotTiles {
  static constexpr int64_t kTokens = kTileRows;
  static constexpr bool kPrefetchPanels = false;  // of CPUs that have no more than SDOT
  // codes [tiles][k / 4][8][4]; scales and sums [tiles][k / 32][8]
  static PackedRows pack(const RoundedRows& x, Arena& arena, ThreadPool& pool);
  static int64_t scratch_bytes(int64_t tiles);
  // The sums [tiles][kTokens][kTaskRows], inside the scratch.
  static const float* multiply(const TilesTask& task);
};

}  // namespace fk
