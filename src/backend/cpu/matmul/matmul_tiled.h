// Products of many rows in 8x8 tiles: x is packed once, w in blocks that fit in L1, both in the kernel's layout. For
// instruction sets whose registers hold parts of several rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backend/cpu/for_items.h"
#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/matmul/scratch.h"
#include "backend/cpu/matmul/split.h"

namespace fk {

// A Kernel has
//   Element, Packed    what x and w are made of, and what pack() turns that into
//   pack(rows, stride, count, k, out)
//                      interleaves `count` <= 8 rows of k elements, absent rows as zeros, into 8 * k Packed, k rounded
//                      up to a multiple of 8. The order is its own, but packing any 8 j elements first and the rest
//                      behind them is the same as packing all.
//   tile(x, w, k, first, c)
//                      c[8][8] += 8 packed rows of x times 8 packed rows of w; if first, c is overwritten
template <class Kernel>
class TiledProduct {
 public:
  TiledProduct(const MatmulArgs& args, int threads)
      : a_(args),
        x_tiles_(ceil_div(args.m, kTile)),
        w_blocks_(ceil_div(args.n, kBlockRows)),
        x_blocks_(count_x_blocks(x_tiles_, w_blocks_, threads)),
        block_tiles_(ceil_div(x_tiles_, x_blocks_)),
        x_tile_size_(kTile * ceil_div(args.k, 8) * 8),
        panels_(panel_scratch(), threads, kPanelBytes + block_tiles_ * kPanels * kSums * int64_t{sizeof(float)}) {
    x_packed_ = reinterpret_cast<Packed*>(
        shared_scratch().at_least(static_cast<size_t>(x_tiles_ * x_tile_size_) * sizeof(Packed)));
  }

  void run(ThreadPool& pool) {
    pool.parallel_for(x_tiles_, 1, [this](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) pack_x(t);
    });
    for_items(pool, w_blocks_ * x_blocks_, [this](int thread, int64_t task) {
      multiply(thread, task / x_blocks_ * kBlockRows, task % x_blocks_ * block_tiles_);
    });
  }

 private:
  using Element = typename Kernel::Element;
  using Packed = typename Kernel::Packed;
  static constexpr int64_t kTile = 8;
  // A block of w is 32 KiB, half the L1 cache of a server core; the tile of x is a quarter of that.
  static constexpr int64_t kBlockRows = 32;
  static constexpr int64_t kPanels = kBlockRows / kTile;
  static constexpr int64_t kDepth = 1024 / static_cast<int64_t>(sizeof(Packed));
  static constexpr int64_t kPanelSize = kTile * kDepth;
  static constexpr int64_t kPanelBytes = kPanels * kPanelSize * static_cast<int64_t>(sizeof(Packed));
  // Sums of 256 rows of x against it: 32 KiB too.
  static constexpr int64_t kBlockTiles = 256 / kTile;
  static constexpr int64_t kSums = kTile * kTile;

  // With few tasks, fewer rows of x in each, so that no thread is idle; but then more threads pack the same w.
  static int64_t count_x_blocks(int64_t x_tiles, int64_t w_blocks, int threads) {
    int64_t x_blocks = ceil_div(x_tiles, kBlockTiles);
    while (w_blocks * x_blocks < 2 * threads && x_tiles >= 8 * x_blocks) x_blocks *= 2;
    return x_blocks;
  }

  void pack_x(int64_t tile) const {
    auto* x = static_cast<const Element*>(a_.x) + tile * kTile * a_.x_stride;
    Kernel::pack(x, a_.x_stride, std::min(kTile, a_.m - tile * kTile), a_.k, x_packed_ + tile * x_tile_size_);
  }

  // Rows `row` .. of w against tiles `tile` .. of x: one task, no other writes these elements of y.
  void multiply(int thread, int64_t row, int64_t tile) const {
    int64_t rows = std::min(kBlockRows, a_.n - row), tiles = std::min(block_tiles_, x_tiles_ - tile);
    auto* w = static_cast<const Element*>(a_.w) + row * a_.w_stride;
    std::byte* memory = panels_.of(thread);
    auto* panels = reinterpret_cast<Packed*>(memory);
    auto* sums = reinterpret_cast<float*>(memory + kPanelBytes);

    for (int64_t depth = 0; depth < a_.k; depth += kDepth) {
      int64_t k = std::min(kDepth, a_.k - depth);
      for (int64_t p = 0; p * kTile < rows; ++p) {
        Kernel::pack(w + p * kTile * a_.w_stride + depth, a_.w_stride, std::min(kTile, rows - p * kTile), k,
                     panels + p * kPanelSize);
      }
      for (int64_t t = 0; t < tiles; ++t) {
        const Packed* x = x_packed_ + (tile + t) * x_tile_size_ + depth * kTile;
        for (int64_t p = 0; p * kTile < rows; ++p)
          Kernel::tile(x, panels + p * kPanelSize, k, depth == 0, sums + (t * kPanels + p) * kSums);
      }
    }
    for (int64_t t = 0; t < tiles; ++t)
      for (int64_t p = 0; p * kTile < rows; ++p)
        store((tile + t) * kTile, row + p * kTile, sums + (t * kPanels + p) * kSums);
  }

  void store(int64_t m, int64_t n, const float* sums) const {
    int64_t columns = std::min(kTile, a_.n - n);
    float bias[kTile] = {};
    if (a_.bias != nullptr)
      for (int64_t j = 0; j < columns; ++j) bias[j] = static_cast<float>(static_cast<const Element*>(a_.bias)[n + j]);
    auto store_as = [&](auto* y) {
      using Out = std::remove_pointer_t<decltype(y)>;
      for (int64_t i = 0; i < std::min(kTile, a_.m - m); ++i)
        for (int64_t j = 0; j < columns; ++j)
          y[(m + i) * a_.y_stride + n + j] = static_cast<Out>(sums[i * kTile + j] + bias[j]);
    };
    if (a_.y_dtype == DType::kBF16)
      store_as(static_cast<bf16*>(a_.y));
    else
      store_as(static_cast<float*>(a_.y));
  }

  const MatmulArgs& a_;
  int64_t x_tiles_, w_blocks_, x_blocks_;
  int64_t block_tiles_;  // of x in a task
  int64_t x_tile_size_;
  ScratchPerThread panels_;
  Packed* x_packed_;
};

// None of m, n, k is 0.
template <class Kernel>
void matmul_tiled(const MatmulArgs& args, ThreadPool& pool) {
  TiledProduct<Kernel>(args, pool.threads()).run(pool);
}

}  // namespace fk
