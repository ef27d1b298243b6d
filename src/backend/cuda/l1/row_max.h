// The largest element of each row, with several blocks per row: the first step of arg-max and sampling.
#pragma once

#include <cstdint>

#include "core/memory.h"

namespace fk::cuda {

// The result for one piece of a row.
struct PieceMax {
  uint64_t first_of_largest;  // order key above the complement of the index: the maximum is the first of the largest
  float largest_number;       // NaN left out; -infinity where there is none
};

struct RowMaxima {
  PieceMax* pieces;  // [rows, pieces_per_row]
  int64_t pieces_per_row;
};

// Of x [rows, N], 1 <= N < 2^32, bf16, f16 or f32, rows contiguous. Every NaN counts as the largest. The result is in
// the arena, for kernels after this one.
RowMaxima row_maxima(const View& x, Arena& arena, void* stream);

}  // namespace fk::cuda
