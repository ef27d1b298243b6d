// The common part of the NEON products: with few rows of x, w is read in place; with more, both are packed into tiles.
#pragma once

#include <cstdint>

#include "backend/cpu/matmul/matmul_dot.h"
#include "backend/cpu/matmul/matmul_tiled.h"
#include "ops/batch_invariant.h"

namespace fk {

// Rows of x up to which w is read in place: 20 sums, 4 rows of w, 1 of x and the loads ahead of them are 32 registers.
inline constexpr int kNeonDotRows = 5;

// Kernel::dot<M, R>(task, row): M = task.m rows of x times the R rows of w from `row` on.
template <class Kernel, int M = kNeonDotRows>
void neon_dot(const DotTask& task) {
  if constexpr (M > 1) {
    if (task.m < M) return neon_dot<Kernel, M - 1>(task);
  }
  int64_t row = 0;
  for (; row + 4 <= task.rows; row += 4) Kernel::template dot<M, 4>(task, row);
  for (; row < task.rows; ++row) Kernel::template dot<M, 1>(task, row);
}

template <class Kernel>
void matmul_neon(const MatmulArgs& args, ThreadPool& pool) {
  if (args.m == 0 || args.n == 0 || args.k == 0) return matmul_portable(args, pool);
  if (args.m <= kNeonDotRows && !batch_invariant()) return matmul_dot(args, pool, neon_dot<Kernel>);
  matmul_tiled<Kernel>(args, pool);
}

}  // namespace fk
