// The NEON kernels of a weight format. Each format is one file of this folder, which enters itself here before main().
//
// Weights are packed once, when they are first used, into panels of eight rows in which the four-byte words of the rows
// alternate: SDOT then sums four rows at once, without sums across a vector, and a thread reads one stretch of memory
// in order, which the hardware prefetches. A panel has as many bytes as its rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "backend/cpu/quantised/rounded_rows.h"

namespace fk {

inline constexpr int64_t kPanelRows = 8;

struct PackPanelTask {
  const std::byte* w;  // the first row
  int64_t w_stride;    // bytes
  int64_t rows;        // up to 8; the others become zero
  int64_t k;           // elements: whole blocks
  std::byte* panel;
};

// One panel times row `token` of x.
struct MultiplyPanelTask {
  const std::byte* panel;
  const RoundedRows* x;
  int64_t token;
  float* sums;  // [8]
};

// Blocks of a panel as int8, in the layout of tiles (neon_tiles.arm64.h).
struct UnpackPanelTask {
  const std::byte* panel;  // from the first of these blocks on
  int64_t k;               // elements: whole blocks
  int8_t* codes;           // [k / 4][8][4]; nullptr: not wanted
  float* scales;           // [k / scale elements][8]
  float* minimums;         // likewise; written only for formats that have them
};

struct NeonFormat {
  std::string_view name;
  void (*pack)(const PackPanelTask&) = nullptr;
  void (*multiply)(const MultiplyPanelTask&) = nullptr;
  // The same, with prefetches of what lies ahead. A Neoverse-V1 then reads Q8_0 with 64 instead of 53 GB/s; a
  // Neoverse-N1 becomes slower.
  void (*multiply_ahead)(const MultiplyPanelTask&) = nullptr;
  void (*unpack)(const UnpackPanelTask&) = nullptr;
  // Where the codes of a packed block begin if they are in the order of unpacked ones, so that unpack can do without
  // them; negative: they are not.
  int64_t codes_at = -1;
};

const NeonFormat* find_neon_format(std::string_view name);  // nullptr where there are no kernels for it

struct RegisterNeonFormat {
  explicit RegisterNeonFormat(const NeonFormat& format);
};

}  // namespace fk
