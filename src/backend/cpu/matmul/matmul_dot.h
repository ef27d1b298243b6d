// Products of few rows (decoding): every weight is read once, in memory order, and used for all rows of x.
#pragma once

#include <cstdint>

#include "backend/cpu/matmul/matmul.h"

namespace fk {

// Rows of w per kernel call; the sums of one piece stay in L1.
inline constexpr int64_t kDotPiece = 64;
// Beyond this many rows of x the sums of a piece would not fit the caller's stack frame: use a blocked product.
inline constexpr int64_t kDotMaxRows = 32;

struct DotTask {
  const void* w;     // `rows` rows of k elements
  int64_t w_stride;  // elements
  int64_t rows;      // at most kDotPiece
  const void* x;     // m rows of k elements
  int64_t x_stride;
  int64_t m;
  int64_t k;
  float* sums;  // [m][kDotPiece]: sums[i][j] = x row i . w row j
};

using DotKernel = void (*)(const DotTask&);

// args.m is at most kDotMaxRows.
void matmul_dot(const MatmulArgs& args, ThreadPool& pool, DotKernel kernel);

}  // namespace fk
