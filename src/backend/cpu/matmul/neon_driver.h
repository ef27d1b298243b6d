// How the NEON products divide a matrix product; a Kernel supplies the arithmetic. Holds no instruction of its own.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/matmul/scratch.h"

namespace fk {

// A Kernel has
//   Element, Packed           what x and w are made of, and what pack() turns that into
//   kFewRows                  with up to this many rows of x, w is read in place
//   dot<M, R>(x, x_stride, w, w_stride, k, sums[M][R])
//                             M rows of x times R rows of w
//   pack(rows, stride, count, k, out)
//                             interleaves `count` <= 8 rows, absent ones as zeros, into 8 * round_up(k, 8) Packed; the
//                             order within is the kernel's own, but elements 0 .. j-1 of every row precede element j
//                             wherever j is a multiple of 8
//   tile(x, w, k, first, c[8][8])
//                             c (+)= 8 packed rows of x times 8 packed rows of w; the first call overwrites c
inline constexpr int64_t kTile = 8;

// Block of w: 32 rows by 1 KiB of packed elements each, 32 KiB, half the first-level cache of a server core; the block
// of x it meets is a quarter of it. The f32 results of 256 rows against it take another 32 KiB.
inline constexpr int64_t kBlockRows = 32;
inline constexpr int64_t kBlockDepthBytes = 1024;
inline constexpr int64_t kBlockTokens = 256;

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

template <class Element>
void store_sums(const MatmulArgs& a, int64_t row, int64_t column, int64_t count, const float* sums) {
  const Element* bias = a.bias == nullptr ? nullptr : static_cast<const Element*>(a.bias) + column;
  int64_t start = row * a.y_stride + column;
  auto store = [&](auto* y) {
    using Out = std::remove_pointer_t<decltype(y)>;
    for (int64_t i = 0; i < count; ++i) y[i] = Out(bias == nullptr ? sums[i] : sums[i] + static_cast<float>(bias[i]));
  };
  if (a.y_dtype == DType::kBF16)
    store(static_cast<bf16*>(a.y) + start);
  else
    store(static_cast<float*>(a.y) + start);
}

// Few rows of x: bound by reading w, so each row of w is read once, in place, R at a time.
template <class Kernel, int M>
void matmul_few_rows(const MatmulArgs& a, ThreadPool& pool) {
  using Element = typename Kernel::Element;
  if constexpr (M > 1) {
    if (a.m < M) return matmul_few_rows<Kernel, M - 1>(a, pool);
  }
  constexpr int kRows = 4;
  constexpr int64_t kChunkBytes = 64 << 10;  // long enough to hide the taking of a chunk
  auto* x = static_cast<const Element*>(a.x);
  auto* w = static_cast<const Element*>(a.w);
  int64_t row_bytes = std::max<int64_t>(a.k, 1) * static_cast<int64_t>(sizeof(Element));
  int64_t grain = std::clamp<int64_t>(kChunkBytes / row_bytes, 1, ceil_div(a.n, pool.threads()));
  pool.parallel_for(a.n, round_up(grain, kRows), [&](int64_t begin, int64_t end) {
    int64_t row = begin;
    for (; row + kRows <= end; row += kRows) {
      float sums[M][kRows];
      Kernel::template dot<M, kRows>(x, a.x_stride, w + row * a.w_stride, a.w_stride, a.k, sums[0]);
      for (int i = 0; i < M; ++i) store_sums<Element>(a, i, row, kRows, sums[i]);
    }
    for (; row < end; ++row) {
      float sums[M];
      Kernel::template dot<M, 1>(x, a.x_stride, w + row * a.w_stride, a.w_stride, a.k, sums);
      for (int i = 0; i < M; ++i) store_sums<Element>(a, i, row, 1, &sums[i]);
    }
  });
}

// Many rows of x: bound by arithmetic. All of x is packed once; each task packs its rows of w block by block.
template <class Kernel>
void matmul_blocked(const MatmulArgs& a, ThreadPool& pool) {
  using Element = typename Kernel::Element;
  using Packed = typename Kernel::Packed;
  constexpr int64_t kDepth = kBlockDepthBytes / static_cast<int64_t>(sizeof(Packed));
  auto* x = static_cast<const Element*>(a.x);
  auto* w = static_cast<const Element*>(a.w);

  int64_t x_tiles = ceil_div(a.m, kTile), x_tile_size = kTile * round_up(a.k, 8);
  auto* x_packed =
      reinterpret_cast<Packed*>(shared_scratch().at_least(static_cast<size_t>(x_tiles * x_tile_size) * sizeof(Packed)));
  pool.parallel_for(x_tiles, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      Kernel::pack(x + t * kTile * a.x_stride, a.x_stride, std::min(kTile, a.m - t * kTile), a.k,
                   x_packed + t * x_tile_size);
    }
  });

  // Tasks share neither results nor packed blocks; with few of them, fewer tokens each, so that no thread stands idle.
  int64_t row_blocks = ceil_div(a.n, kBlockRows), token_blocks = ceil_div(a.m, kBlockTokens);
  while (row_blocks * token_blocks < 2 * pool.threads() && x_tiles >= 8 * token_blocks) token_blocks *= 2;
  int64_t task_tiles = ceil_div(x_tiles, token_blocks);
  constexpr int64_t kPanelSize = kTile * kDepth;
  constexpr int64_t kPanels = kBlockRows / kTile;
  constexpr int64_t kResultSize = kTile * kTile;

  pool.parallel_for(row_blocks * token_blocks, 1, [&](int64_t begin, int64_t end) {
    size_t result_bytes = static_cast<size_t>(task_tiles * kPanels * kResultSize) * sizeof(float);
    std::byte* memory = panel_scratch().at_least(result_bytes + kPanels * kPanelSize * sizeof(Packed));
    auto* results = reinterpret_cast<float*>(memory);
    auto* panels = reinterpret_cast<Packed*>(memory + result_bytes);
    for (int64_t task = begin; task < end; ++task) {
      int64_t row = task / token_blocks * kBlockRows, rows = std::min(kBlockRows, a.n - row);
      int64_t first_tile = task % token_blocks * task_tiles, end_tile = std::min(first_tile + task_tiles, x_tiles);

      int64_t depth = 0;
      do {  // at least once: with k = 0 the results become zero
        int64_t k = std::min(kDepth, a.k - depth);
        for (int64_t p = 0; p * kTile < rows; ++p) {
          Kernel::pack(w + (row + p * kTile) * a.w_stride + depth, a.w_stride, std::min(kTile, rows - p * kTile), k,
                       panels + p * kPanelSize);
        }
        for (int64_t t = first_tile; t < end_tile; ++t) {
          for (int64_t p = 0; p * kTile < rows; ++p) {
            Kernel::tile(x_packed + t * x_tile_size + depth * kTile, panels + p * kPanelSize, k, depth == 0,
                         results + ((t - first_tile) * kPanels + p) * kResultSize);
          }
        }
        depth += kDepth;
      } while (depth < a.k);

      for (int64_t t = first_tile; t < end_tile; ++t) {
        for (int64_t p = 0; p * kTile < rows; ++p) {
          const float* c = results + ((t - first_tile) * kPanels + p) * kResultSize;
          int64_t token = t * kTile, column = row + p * kTile;
          for (int64_t i = 0; i < std::min(kTile, a.m - token); ++i)
            store_sums<Element>(a, token + i, column, std::min(kTile, a.n - column), c + i * kTile);
        }
      }
    }
  });
}

template <class Kernel>
void matmul_neon(const MatmulArgs& a, ThreadPool& pool) {
  if (a.m <= 0 || a.n <= 0) return;
  if (a.m <= Kernel::kFewRows)
    matmul_few_rows<Kernel, Kernel::kFewRows>(a, pool);
  else
    matmul_blocked<Kernel>(a, pool);
}

}  // namespace fk
