// f32 matrix products on AMX tiles, which multiply bf16 only: every number is split into three bf16 whose sum is exact
// (8 + 8 + 8 bits), and of the nine partial products the six that matter for f32 precision are summed:
//
//   x w = x1 w1 + (x1 w2 + x2 w1) + (x1 w3 + x2 w2 + x3 w1) + O(2^-24)
//
// Six products on the tiles are still faster than one with vector instructions. Parts of numbers below 2^-110 can be
// too small for the tiles, which treat them as zero; non-finite numbers are computed with vector instructions.
//
// A block of w, 32 rows by 160, is split into L1 and multiplied with every 32 rows of x, packed and split once, which
// stream from L2. Tiles of sums are y transposed: [16 n][16 m].
#include <algorithm>
#include <atomic>

#include "backend/cpu/matmul/amx_tiles.x86.h"
#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/matmul/scratch.h"
#include "backend/cpu/matmul/split.h"

namespace fk {
namespace {

constexpr int64_t kPanel = 32;         // rows of w, and rows of x, multiplied at a time: two tiles each
constexpr int64_t kStepElements = 32;  // of k in a tile
constexpr int64_t kPartBytes = 2048;   // two tiles
constexpr int64_t kStepBytes = 3 * kPartBytes;
constexpr int64_t kMaxSteps = 5;  // k-steps of a block: 30 KiB of the 48 KiB of L1
constexpr int64_t kBlockBytes = kMaxSteps * kStepBytes;
constexpr int64_t kSumsBytes = 4096;   // four tiles of f32
constexpr int64_t kPassRows = 512;     // of x per pass; its packed block of k is 480 KiB
constexpr int64_t kPassColumns = 256;  // of y that a thread takes at most: 512 KiB of sums
constexpr int64_t kSumPanels = kPassRows / kPanel * (kPassColumns / kPanel);
constexpr int64_t kScratchBytes = kBlockBytes + kSumPanels * kSumsBytes;

// The upper bits of each f32 as bf16, and the rest of the f32.
FK_AMX_INLINE __m512 upper_bits(__m512& x) {
  __m512 upper = _mm512_and_ps(x, _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(0xffff0000u))));
  x = _mm512_sub_ps(x, upper);
  return upper;
}

// 32 f32 (the first `count`, then zeros) as three rows of 32 bf16, the largest parts first.
FK_AMX_INLINE void cut32(const float* x, int64_t count, __m512i (&parts)[3]) {
  const __m512i upper_halves = _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29,
                                                27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  __m512 low = _mm512_maskz_loadu_ps(avx512::first16(std::max<int64_t>(count, 0)), x);
  __m512 high = _mm512_maskz_loadu_ps(avx512::first16(std::max<int64_t>(count - 16, 0)), x + 16);
#pragma GCC unroll 3
  for (__m512i& part : parts) {
    __m512 a = upper_bits(low), b = upper_bits(high);
    part = _mm512_permutex2var_epi16(_mm512_castps_si512(a), upper_halves, _mm512_castps_si512(b));
  }
}

// One pass over the weights for up to kPassRows rows of x.
class Pass {
 public:
  Pass(const MatmulArgs& args, int64_t row, int64_t threads)
      : a_(args),
        row_(row),
        rows_(std::min(kPassRows, args.m - row)),
        panels_(ceil_div(rows_, kPanel)),
        steps_(ceil_div(args.k, kStepElements)),
        block_steps_(ceil_div(steps_, ceil_div(steps_, kMaxSteps))),
        columns_(columns_of_a_turn(args.n, kPanel, kPassColumns, threads)),
        workspaces_(panel_scratch(), threads, kScratchBytes) {
    packed_ = shared_scratch().at_least(static_cast<size_t>(steps_ * panels_ * kStepBytes));
  }

  FK_AMX void pack(int64_t thread, int64_t threads) const {
    Range mine = split_range(panels_ * ceil_div(steps_, block_steps_), 1, thread, threads);
    for (int64_t i = mine.begin; i < mine.end; ++i) pack_panel(i / panels_ * block_steps_, i % panels_);
  }

  // Columns are distributed dynamically.
  FK_AMX void multiply(int64_t thread) {
    amx::use_whole_tiles();
    std::byte *block = workspaces_.of(thread), *sums = block + kBlockBytes;
    for (int64_t n; (n = next_.fetch_add(columns_, std::memory_order_relaxed)) < a_.n;)
      multiply_columns({n, std::min(n + columns_, a_.n)}, block, sums);
    _tile_release();
  }

  bool has_nan() const { return nan_.load(std::memory_order_relaxed); }

 private:
  FK_AMX void pack_panel(int64_t step, int64_t p) const {
    std::byte* to = panel(step, p);
    for (int64_t end = step + steps_at(step); step < end; ++step, to += kStepBytes)
      for (int64_t half = 0; half < 2; ++half) pack_tile(p * kPanel + half * 16, step, to + half * amx::kTileBytes);
  }

  // Three tiles, a part each, of pairs of elements of sixteen rows of x; zero where x has no element.
  FK_AMX void pack_tile(int64_t row, int64_t step, std::byte* to) const {
    auto* x = static_cast<const float*>(a_.x) + (row_ + row) * a_.x_stride + step * kStepElements;
    __m512i parts[3][16];
    for (int64_t i = 0; i < 16; ++i) {
      __m512i cut[3];
      cut32(x + i * a_.x_stride, row + i < rows_ ? a_.k - step * kStepElements : 0, cut);
      for (int part = 0; part < 3; ++part) parts[part][i] = cut[part];
    }
    for (auto& part : parts) {
      avx512::transpose16(part);
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) _mm512_store_si512(to + i * 64, part[i]);
      to += kPartBytes;
    }
  }

  // Sums stay in L2 between blocks of k.
  FK_AMX void multiply_columns(Range columns, std::byte* block, std::byte* sums) {
    for (int64_t step = 0; step < steps_; step += block_steps_)
      for (int64_t n = columns.begin; n < columns.end; n += kPanel) {
        cut_block(n, step, block);
        std::byte* at = sums + (n - columns.begin) / kPanel * panels_ * kSumsBytes;
        Prefetch ahead = block_after(n, step, columns);
        for (int64_t p = 0; p < panels_; ++p, at += kSumsBytes) {
          ahead.some(ceil_div(kPanel, panels_));
          multiply_panel(block, panel(step, p), steps_at(step), step == 0, at);
        }
      }
    for (int64_t p = 0; p < panels_; ++p)
      for (int64_t n = columns.begin; n < columns.end; n += kPanel)
        store(sums + ((n - columns.begin) / kPanel * panels_ + p) * kSumsBytes, p * kPanel, n);
  }

  // Rows past n and elements past k are zero.
  FK_AMX void cut_block(int64_t n, int64_t step, std::byte* block) const {
    int64_t steps = steps_at(step), elements = a_.k - step * kStepElements;
    for (int64_t r = 0; r < kPanel; ++r)
      for (int64_t s = 0; s < steps; ++s) {
        __m512i parts[3];
        cut32(w_at(n + r, step + s), n + r < a_.n ? elements - s * kStepElements : 0, parts);
        for (int part = 0; part < 3; ++part)
          _mm512_store_si512(block + s * kStepBytes + part * kPartBytes + r * 64, parts[part]);
      }
    amx::memory_barrier();
  }

  // Rows of w to bring into L2.
  struct Prefetch {
    const float* w;
    int64_t rows, bytes, stride;
    FK_AMX_INLINE void some(int64_t count) {
      for (count = std::min(count, rows); count > 0; --count, --rows, w += stride)
        for (int64_t b = 0; b < bytes; b += 64) _mm_prefetch(reinterpret_cast<const std::byte*>(w) + b, _MM_HINT_T1);
    }
  };
  // The block multiplied after this one; after the last one of `columns`, the first that no thread has taken yet.
  Prefetch block_after(int64_t n, int64_t step, Range columns) const {
    if (n + kPanel < columns.end) {
      n += kPanel;
    } else if (step + block_steps_ < steps_) {
      n = columns.begin, step += block_steps_;
    } else {
      n = next_.load(std::memory_order_relaxed), step = 0;
    }
    int64_t elements = std::min(steps_at(step) * kStepElements, a_.k - step * kStepElements);
    return {w_at(n, step), std::clamp<int64_t>(a_.n - n, 0, kPanel), elements * 4, a_.w_stride};
  }

  // sums (+)= block * x. Products of small parts come first, and no part of x is loaded twice.
  FK_AMX static void multiply_panel(const std::byte* w, const std::byte* x, int64_t steps, bool first,
                                    std::byte* sums) {
    if (first) {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    } else {
      _tile_loadd(0, sums, 64);
      _tile_loadd(1, sums + 1024, 64);
      _tile_loadd(2, sums + 2048, 64);
      _tile_loadd(3, sums + 3072, 64);
    }
    for (int64_t s = 0; s < steps; ++s, w += kStepBytes, x += kStepBytes) {
      load_w(w);
      load_x(x + 2 * kPartBytes);
      add_product();  // w1 x3
      load_x(x + kPartBytes);
      add_product();  // w1 x2
      load_w(w + kPartBytes);
      add_product();  // w2 x2
      load_x(x);
      add_product();  // w2 x1
      load_w(w + 2 * kPartBytes);
      add_product();  // w3 x1
      load_w(w);
      add_product();  // w1 x1
    }
    _tile_stored(0, sums, 64);
    _tile_stored(1, sums + 1024, 64);
    _tile_stored(2, sums + 2048, 64);
    _tile_stored(3, sums + 3072, 64);
    amx::memory_barrier();
  }
  FK_AMX_INLINE static void load_w(const std::byte* w) {
    _tile_loadd(4, w, 64);
    _tile_loadd(5, w + 1024, 64);
  }
  FK_AMX_INLINE static void load_x(const std::byte* x) {
    _tile_stream_loadd(6, x, 64);
    _tile_stream_loadd(7, x + 1024, 64);
  }
  FK_AMX_INLINE static void add_product() {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }

  // Tiles of sums are [n half][m half][16 n][16 m].
  FK_AMX void store(const std::byte* sums, int64_t m, int64_t n) {
    auto y_bytes = static_cast<int64_t>(dtype_size(a_.y_dtype));
    auto* tile = reinterpret_cast<const float*>(sums);
    __mmask16 nan = 0;
    for (int64_t i = 0; i < kSumsBytes / 4; i += 16) {
      __m512 v = _mm512_load_ps(tile + i);
      nan |= _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    }
    if (nan != 0) nan_.store(true, std::memory_order_relaxed);
    for (int64_t i = 0; i < 2 && n + 16 * i < a_.n; ++i) {
      int64_t column = n + 16 * i;
      __mmask16 columns = avx512::first16(a_.n - column);
      const float* bias = a_.bias == nullptr ? nullptr : static_cast<const float*>(a_.bias) + column;
      for (int64_t half = 0; half < 2; ++half) {
        int64_t row = m + half * 16;
        avx512::store16(tile + (2 * i + half) * 256, 16, avx512::load_bias(bias, DType::kF32, columns), columns,
                        rows_ - row, static_cast<std::byte*>(a_.y) + ((row_ + row) * a_.y_stride + column) * y_bytes,
                        a_.y_stride, a_.y_dtype);
      }
    }
  }

  const float* w_at(int64_t n, int64_t step) const {
    return static_cast<const float*>(a_.w) + n * a_.w_stride + step * kStepElements;
  }
  int64_t steps_at(int64_t step) const { return std::min(block_steps_, steps_ - step); }
  // Blocks of k one after the other, in each the panels.
  std::byte* panel(int64_t step, int64_t p) const {
    return packed_ + (step * panels_ + steps_at(step) * p) * kStepBytes;
  }

  const MatmulArgs& a_;
  int64_t row_, rows_, panels_;
  int64_t steps_, block_steps_;  // of k, and of a block of k
  int64_t columns_;              // per unit of work
  std::atomic<int64_t> next_{0};
  std::atomic<bool> nan_{false};
  ScratchPerThread workspaces_;
  std::byte* packed_;
};

}  // namespace

void matmul_amx_f32(const MatmulArgs& args, ThreadPool& pool) {
  if (args.m == 0 || args.n == 0 || args.k == 0) return matmul_portable(args, pool);
  int64_t threads = pool.threads();
  for (int64_t row = 0; row < args.m; row += kPassRows) {
    Pass pass(args, row, threads);
    pool.on_all([&](int thread) { pass.pack(thread, threads); });
    pool.on_all([&](int thread) { pass.multiply(thread); });
    if (pass.has_nan()) return matmul_avx512_f32(args, pool);
  }
}

}  // namespace fk
