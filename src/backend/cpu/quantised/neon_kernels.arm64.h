// The NEON kernels of a weight format. Each format is one file of this folder, which enters itself here before main().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "backend/cpu/quantised/rounded_rows.h"

namespace fk {

// Rows of w times all rows of x, for few rows of x: w is read once, in place.
struct RowsTask {
  const std::byte* w;
  int64_t w_stride;  // bytes
  int64_t rows;
  const RoundedRows* x;
  float* sums;  // [m][sums_stride]
  int64_t sums_stride;
};

// Eight rows of w as int8, in the layout of tiles (neon_tiles.arm64.h).
struct PanelTask8 {
  const std::byte* w;  // the first block of the panel in its first row
  int64_t w_stride;    // bytes
  int64_t rows;        // up to 8; the others become zero
  int64_t k;           // elements: whole blocks
  int8_t* codes;       // [k / 4][8][4]
  float* scales;       // [k / scale elements][8]
  float* minimums;     // likewise; written only for formats that have them
};

struct NeonFormat {
  std::string_view name;
  void (*rows)(const RowsTask&) = nullptr;
  void (*panel)(const PanelTask8&) = nullptr;
};

const NeonFormat* find_neon_format(std::string_view name);  // nullptr where there are no kernels for it

struct RegisterNeonFormat {
  explicit RegisterNeonFormat(const NeonFormat& format);
};

}  // namespace fk
