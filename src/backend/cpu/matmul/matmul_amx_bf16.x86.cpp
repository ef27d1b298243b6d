// Matrix products with AMX tiles. Tiles of w come as they lie in memory (16 rows of 32 elements), x is packed once into
// the pairwise layout the instruction wants of its second operand, so a tile of sums is y transposed: [16 n][16 m].
//
// A block of w, 32 rows by 512, is copied into the first-level cache and multiplied with every 32 rows of x, which
// stream from the second level (TILELOADDT1 leaves the first level alone). While that runs the next block of w is
// prefetched.
#include "backend/cpu/matmul/avx512.x86.h"
#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/matmul/scratch.h"
#include "backend/cpu/matmul/split.h"

#define FK_AMX __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma")))

namespace fk {
namespace {

constexpr int64_t kPanel = 32;         // rows of w, and rows of x, multiplied at a time: two tiles each
constexpr int64_t kStepElements = 32;  // of k in a tile
constexpr int64_t kStepBytes = 2048;   // two tiles
constexpr int64_t kBlockSteps = 16;    // k-steps of a block of w: 32 KiB of the 48 KiB first level
constexpr int64_t kBlock = kBlockSteps * kStepElements;
constexpr int64_t kSumsBytes = 4096;  // four tiles of f32
constexpr int64_t kChunkRows = 1024;  // of x packed at a time, to bound the scratch memory

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t round_up(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }

// How the work is cut. Rows of x in a block are those whose packed panels stay in the second-level cache, next to the
// sums of `columns` columns when k needs several blocks of x.
struct Blocking {
  int64_t rows, columns;  // of one pass over blocks
  int64_t row_parts;      // threads side by side in m; the others split n
};

constexpr int64_t kResidentBytes = int64_t{1} << 20;  // half of a 2 MiB second level

Blocking choose_blocking(int64_t m, int64_t k, int64_t threads) {
  int64_t fit = kResidentBytes / (round_up(k, kBlock) * 2) / kPanel * kPanel;
  if (fit < 192) return {512, 512, 1};
  Blocking b{fit < 512 ? fit : 512, kPanel, 1};
  for (int64_t parts = 1; parts <= threads; ++parts)
    if (threads % parts == 0 && (parts - 1) * b.rows < m) b.row_parts = parts;
  return b;
}

class Pass {
 public:
  Pass(const MatmulArgs& args, int64_t row, int64_t rows, int64_t threads)
      : a_(args),
        row_(row),
        rows_(rows),
        panels_((rows + kPanel - 1) / kPanel),
        blocking_(choose_blocking(rows, args.k, threads)) {
    int64_t steps = (a_.k + kStepElements - 1) / kStepElements;
    packed_ = shared_scratch().at_least(static_cast<size_t>(steps * panels_ * kStepBytes));
  }

  FK_AMX void pack(int64_t thread, int64_t threads) const {
    int64_t blocks = (a_.k + kBlock - 1) / kBlock;
    Range mine = split_range(panels_ * blocks, 1, thread, threads);
    for (int64_t i = mine.begin; i < mine.end; ++i) pack_panel(i / panels_ * kBlock, i % panels_);
  }

  FK_AMX void multiply(int64_t thread, int64_t threads) const {
    // Constant: the intrinsic tells GCC of 8 bytes read, so stores to the rest of a local one could be dropped.
    static constexpr TileConfig config;
    _tile_loadconfig(&config);
    int64_t column_parts = threads / blocking_.row_parts;
    Range rows = split_range(rows_, kPanel, thread / column_parts, blocking_.row_parts);
    Range columns = split_range(a_.n, kPanel, thread % column_parts, column_parts);
    for (int64_t m = rows.begin; m < rows.end; m += blocking_.rows) {
      Range block_rows{m / kPanel, (at_most(m + blocking_.rows, rows.end) + kPanel - 1) / kPanel};
      for (int64_t n = columns.begin; n < columns.end; n += blocking_.columns)
        multiply_columns(block_rows, {n, at_most(n + blocking_.columns, columns.end)}, columns.end);
    }
    _tile_release();
  }

 private:
  struct Prefetch {
    const std::byte* w;  // rows to bring into the second level, one line of each per k-step
    int64_t stride_bytes;
    int64_t rows;
  };

  FK_AMX void pack_panel(int64_t k, int64_t p) const {
    int64_t bytes = k_size(k) * 2, stride = a_.x_stride * 2;
    auto* x = static_cast<const std::byte*>(a_.x) + (row_ + p * kPanel) * stride + k * 2;
    int64_t rows = rows_ - p * kPanel;
    for (int64_t b = 0; b < bytes; b += 64) {
      std::byte* tile = panel(k, p) + b / 64 * kStepBytes;
      pack_tile(x + b, stride, rows, bytes - b, tile);
      pack_tile(x + 16 * stride + b, stride, rows - 16, bytes - b, tile + 1024);
    }
  }

  // A whole tile, zero where x has no element.
  FK_AMX static void pack_tile(const std::byte* x, int64_t stride, int64_t rows, int64_t bytes, std::byte* tile) {
    __mmask32 mask = avx512::first32(bytes / 2);
    __m512i r[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i)
      r[i] = i < rows ? _mm512_maskz_loadu_epi16(mask, x + i * stride) : _mm512_setzero_si512();
    avx512::transpose16(r);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) _mm512_store_si512(tile + i * 64, r[i]);
  }

  // y for the given panels of x and columns; the sums of all of them wait in the second level between blocks of k.
  FK_AMX void multiply_columns(Range panels, Range columns, int64_t end) const {
    int64_t count = panels.end - panels.begin;
    size_t block_bytes = kBlockSteps * kStepBytes;
    std::byte* block =
        panel_scratch().at_least(block_bytes + static_cast<size_t>(blocking_.columns / kPanel * count * kSumsBytes));
    for (int64_t k = 0; k < a_.k; k += kBlock) {
      bool last = k + kBlock >= a_.k;
      int64_t steps = (k_size(k) + kStepElements - 1) / kStepElements;
      for (int64_t n = columns.begin; n < columns.end; n += kPanel) {
        bool whole = n + kPanel <= columns.end && k + kBlock <= a_.k;
        if (!whole) copy_edge(n, columns.end, k, block);
        std::byte* sums = block + block_bytes + (n - columns.begin) / kPanel * count * kSumsBytes;
        Prefetch next = after(columns, end, n, k, count);
        for (int64_t p = 0; p < count; ++p) {
          int64_t m = (panels.begin + p) * kPanel;
          const std::byte* x = panel(k, panels.begin + p);
          if (last) prefetch_output(m, n);
          if (p == 0 && whole)
            multiply_panel<true>(block, x, steps, sums, k == 0, next, w_at(n, k), a_.w_stride * 2);
          else
            multiply_panel<false>(block, x, steps, sums + p * kSumsBytes, k == 0, next, nullptr, 0);
          next.w += next.rows * next.stride_bytes;
          // One panel late: the tiles of this one are still being summed, and waiting for them would idle the tile
          // unit.
          if (last && p > 0) store(sums + (p - 1) * kSumsBytes, m - kPanel, n, columns.end);
        }
        if (last) store(sums + (count - 1) * kSumsBytes, (panels.end - 1) * kPanel, n, columns.end);
      }
    }
  }

  // The block that multiply_columns comes to after (n, k), its rows divided among `panels` calls of multiply_panel.
  FK_AMX Prefetch after(Range columns, int64_t end, int64_t n, int64_t k, int64_t panels) const {
    if (n + kPanel < columns.end) {
      n += kPanel;
    } else if (k + kBlock < a_.k) {
      n = columns.begin;
      k += kBlock;
    } else {
      n = columns.end;
      k = 0;
    }
    if (n + kPanel > end || k + kBlock > a_.k) return {nullptr, 0, 0};
    return {w_at(n, k), a_.w_stride * 2, (kPanel + panels - 1) / panels};
  }

  // A block at the end of n or k: [k-step][two tiles], rows past `end` and elements past k are zero.
  FK_AMX void copy_edge(int64_t n, int64_t end, int64_t k, std::byte* block) const {
    const std::byte* w = w_at(n, k);
    int64_t stride = a_.w_stride * 2, elements = k_size(k);
    for (int64_t r = 0; r < kPanel; ++r)
      for (int64_t i = 0; i < elements; i += kStepElements) {
        __mmask32 mask = n + r < end ? avx512::first32(elements - i) : 0;
        _mm512_store_si512(block + i / kStepElements * kStepBytes + r * 64,
                           _mm512_maskz_loadu_epi16(mask, w + r * stride + i * 2));
      }
  }

  // sums += block * panel, both [step][two tiles]. With kCopy the block is taken from the rows of w and left behind.
  template <bool kCopy>
  FK_AMX static void multiply_panel(std::byte* block, const std::byte* x, int64_t steps, std::byte* sums, bool first,
                                    Prefetch next, const std::byte* w, int64_t w_stride) {
    asm volatile("" ::: "memory");  // tile loads do not tell the compiler that they read what was stored before
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
    for (int64_t s = 0; s < steps; ++s) {
      _tile_stream_loadd(6, x, 64);
      _tile_stream_loadd(7, x + 1024, 64);
      if constexpr (kCopy) {
        _tile_stream_loadd(4, w, w_stride);
        _tile_stored(4, block, 64);
        _tile_stream_loadd(5, w + 16 * w_stride, w_stride);
        _tile_stored(5, block + 1024, 64);
        w += 64;
      } else {
        _tile_stream_loadd(4, block, 64);
        _tile_stream_loadd(5, block + 1024, 64);
      }
      for (int i = 0; i < 4; ++i) _mm_prefetch(sums + kSumsBytes + (s * 4 + i) * 64, _MM_HINT_T0);
      for (int64_t r = 0; r < next.rows; ++r) _mm_prefetch(next.w + r * next.stride_bytes + s * 64, _MM_HINT_T1);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
      x += kStepBytes;
      block += kStepBytes;
    }
    _tile_stored(0, sums, 64);
    _tile_stored(1, sums + 1024, 64);
    _tile_stored(2, sums + 2048, 64);
    _tile_stored(3, sums + 3072, 64);
  }

  // Writing lines of y that are in no cache would hold up the stores behind them for longer than a panel takes.
  FK_AMX void prefetch_output(int64_t m, int64_t n) const {
    auto bytes = static_cast<int64_t>(dtype_size(a_.y_dtype));
    auto* y = static_cast<const std::byte*>(a_.y) + ((row_ + m) * a_.y_stride + n) * bytes;
    for (int64_t i = 0; i < at_most(kPanel, rows_ - m); ++i)
      for (int64_t line = 0; line < bytes / 2; ++line)
        _mm_prefetch(y + i * a_.y_stride * bytes + line * 64, _MM_HINT_T1);
  }

  // Tiles of sums are [n half][m half][16 n][16 m].
  FK_AMX void store(const std::byte* sums, int64_t m, int64_t n, int64_t end) const {
    auto* tile = reinterpret_cast<const float*>(sums);
    auto* bias_at = static_cast<const uint16_t*>(a_.bias);
    alignas(64) float bias[kPanel];
    for (int64_t i = 0; i < kPanel; i += 16) {
      __mmask16 mask = avx512::first16(end - n - i < 0 ? 0 : end - n - i);
      _mm512_store_ps(bias + i, avx512::load_bias(bias_at == nullptr ? nullptr : bias_at + n + i, DType::kBF16, mask));
    }
    for (int64_t half = 0; half < 2; ++half, tile += 256) {
      int64_t row = m + half * 16, at = (row_ + row) * a_.y_stride + n;
      if (a_.y_dtype == DType::kBF16) {
        avx512::store32_bf16(tile, tile + 512, bias, avx512::first32(end - n), rows_ - row,
                             static_cast<uint16_t*>(a_.y) + at, a_.y_stride);
        continue;
      }
      for (int64_t i = 0; i < kPanel && n + i < end; i += 16)
        avx512::store16(tile + i * 32, 16, _mm512_load_ps(bias + i), avx512::first16(end - n - i), rows_ - row,
                        static_cast<float*>(a_.y) + at + i, a_.y_stride, DType::kF32);
    }
  }

  const std::byte* w_at(int64_t n, int64_t k) const {
    return static_cast<const std::byte*>(a_.w) + (n * a_.w_stride + k) * 2;
  }
  int64_t k_size(int64_t k) const { return at_most(kBlock, a_.k - k); }
  // Blocks of k one after the other, in each the panels.
  std::byte* panel(int64_t k, int64_t p) const {
    int64_t steps = (k_size(k) + kStepElements - 1) / kStepElements;
    return packed_ + (k / kStepElements * panels_ + steps * p) * kStepBytes;
  }

  const MatmulArgs& a_;
  int64_t row_, rows_, panels_;
  Blocking blocking_;
  std::byte* packed_;
};

}  // namespace

void matmul_amx_bf16(const MatmulArgs& args, ThreadPool& pool) {
  if (args.m == 0 || args.n == 0 || args.k == 0) return matmul_portable(args, pool);
  int64_t threads = pool.threads();
  for (int64_t row = 0; row < args.m; row += kChunkRows) {
    Pass pass(args, row, at_most(kChunkRows, args.m - row), threads);
    pool.on_all([&](int thread) { pass.pack(thread, threads); });
    pool.on_all([&](int thread) { pass.multiply(thread, threads); });
  }
}

}  // namespace fk
