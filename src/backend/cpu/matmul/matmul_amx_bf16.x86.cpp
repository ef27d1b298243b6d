// Matrix products with AMX tiles. Tiles of w are loaded directly from memory (16 rows of 32 elements), x is packed once
// into the pairwise layout of the second operand, so a tile of sums is y transposed: [16 n][16 m].
//
// A block of w, 32 rows by 512, is copied into L1 and multiplied with every 32 rows of x, which stream from L2
// (TILELOADDT1 does not fill L1). While that runs the next block of w is prefetched. Quantised weights become such a
// block when it is needed.
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
constexpr int64_t kStepBytes = 2048;   // two tiles
constexpr int64_t kMaxSteps = 16;      // k-steps of a block of w: 32 KiB of the 48 KiB of L1
constexpr int64_t kBlockBytes = kMaxSteps * kStepBytes;
constexpr int64_t kSumsBytes = 4096;   // four tiles of f32
constexpr int64_t kPassRows = 512;     // of x per pass; its packed block of k is 512 KiB
constexpr int64_t kPassColumns = 512;  // of y per pass: 1 MiB of sums, half of an L2 cache
constexpr int64_t kSumPanels = kPassRows / kPanel * (kPassColumns / kPanel);
constexpr size_t kScratchBytes = kBlockBytes + (kSumPanels + 1) * kSumsBytes;  // with a spare panel of sums

// One pass over the weights for up to kPassRows rows of x.
class Pass {
 public:
  Pass(const MatmulArgs& args, const WeightBlocks& blocks, int64_t row, int64_t threads)
      : a_(args),
        blocks_(blocks),
        row_(row),
        rows_(std::min(kPassRows, args.m - row)),
        panels_(ceil_div(rows_, kPanel)),
        steps_(ceil_div(args.k, kStepElements)),
        block_steps_(ceil_div(steps_, ceil_div(steps_, kMaxSteps))),
        columns_(columns_of_a_turn(args.n, kPanel, kPassColumns, threads)),
        workspaces_(panel_scratch(), threads, static_cast<int64_t>(kScratchBytes)) {
    packed_ = shared_scratch().at_least(static_cast<size_t>(steps_ * panels_ * kStepBytes));
  }

  FK_AMX void pack(int64_t thread, int64_t threads) const {
    Range mine = split_range(panels_ * ceil_div(steps_, block_steps_), 1, thread, threads);
    for (int64_t i = mine.begin; i < mine.end; ++i) pack_panel(i / panels_ * block_steps_, i % panels_);
  }

  // Columns are distributed dynamically.
  FK_AMX void multiply(int64_t thread) {
    amx::use_whole_tiles();
    Workspace space(workspaces_.of(thread));
    for (int64_t n; (n = next_.fetch_add(columns_, std::memory_order_relaxed)) < a_.n;)
      multiply_columns({n, std::min(n + columns_, a_.n)}, space);
    _tile_release();
  }

 private:
  // A thread's memory: the block of w as [step][two tiles], sums as [panel of n][panel of m][four tiles].
  struct Workspace {
    explicit Workspace(std::byte* memory) : block(memory), sums(memory + kBlockBytes) {}
    std::byte *block, *sums;
    std::byte* unsaved = sums + kSumPanels * kSumsBytes;  // where the sums in the tiles go; at first a spare panel
  };
  // A block of w: rows n .. n+31, steps `step` and on.
  struct Place {
    int64_t n, step;
  };
  // Rows of w to bring into L2, one line of each per k-step.
  struct Prefetch {
    const std::byte* w;
    int64_t rows, stride;
  };

  FK_AMX void pack_panel(int64_t step, int64_t p) const {
    int64_t stride = a_.x_stride * 2, rows = rows_ - p * kPanel;
    auto* x = static_cast<const std::byte*>(a_.x) + (row_ + p * kPanel) * stride;
    std::byte* tile = panel(step, p);
    for (int64_t end = step + steps_at(step); step < end; ++step, tile += kStepBytes) {
      int64_t bytes = step * 64;
      pack_tile(x + bytes, stride, rows, a_.k * 2 - bytes, tile);
      pack_tile(x + 16 * stride + bytes, stride, rows - 16, a_.k * 2 - bytes, tile + 1024);
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

  // y for the columns of one pass. Sums stay in L2 between blocks of k, and until all are done: then adjacent lines of
  // y are written together, which is much faster than one line of each of many rows.
  FK_AMX void multiply_columns(Range columns, Workspace& space) const {
    for (int64_t step = 0; step < steps_; step += block_steps_)
      for (int64_t n = columns.begin; n < columns.end; n += kPanel) multiply_block({n, step}, columns, space);
    save(space.unsaved);
    for (int64_t p = 0; p < panels_; ++p)
      for (int64_t n = columns.begin; n < columns.end; n += kPanel)
        store(space.sums + ((n - columns.begin) / kPanel * panels_ + p) * kSumsBytes, p * kPanel, n, columns.end);
  }

  // All panels of x times one block of w.
  FK_AMX void multiply_block(Place at, Range columns, Workspace& space) const {
    bool whole = is_whole(at);
    if (!whole) make_block(at, space.block);
    int64_t steps = steps_at(at.step), index = (at.n - columns.begin) / kPanel * panels_;
    Place next = after(at, columns);
    Prefetch ahead{w_at(next), is_whole(next) ? ceil_div(kPanel, panels_) : 0, a_.w_stride * 2};
    for (int64_t p = 0; p < panels_; ++p) {
      std::byte* sums = space.sums + (index + p) * kSumsBytes;
      PanelTask task{space.block,  p == 0 && whole ? w_at(at) : nullptr, panel(at.step, p), steps, at.step == 0, sums,
                     space.unsaved};
      if (task.w != nullptr)
        multiply_panel<true>(task, ahead);
      else
        multiply_panel<false>(task, ahead);
      space.unsaved = sums;
      ahead.w += ahead.rows * ahead.stride;
    }
  }

  // The block multiplied after `at`; after the last one of `columns`, the first that no thread has taken yet.
  Place after(Place at, Range columns) const {
    if (at.n + kPanel < columns.end) return {at.n + kPanel, at.step};
    if (at.step + block_steps_ < steps_) return {columns.begin, at.step + block_steps_};
    return {next_.load(std::memory_order_relaxed), 0};
  }
  // Consists of whole tiles in memory.
  bool is_whole(Place at) const {
    return blocks_.fill == nullptr && at.n + kPanel <= a_.n && (at.step + steps_at(at.step)) * kStepElements <= a_.k;
  }

  // Copied, rows past n and elements past k are zero.
  FK_AMX void make_block(Place at, std::byte* block) const {
    int64_t steps = steps_at(at.step), elements = a_.k - at.step * kStepElements;
    if (blocks_.fill != nullptr)
      return blocks_.fill(blocks_.of, at.n, at.step * kStepElements, steps, reinterpret_cast<bf16*>(block));
    for (int64_t r = 0; r < kPanel; ++r)
      for (int64_t s = 0; s < steps; ++s) {
        __mmask32 mask = at.n + r < a_.n ? avx512::first32(elements - s * kStepElements) : 0;
        _mm512_store_si512(block + s * kStepBytes + r * 64,
                           _mm512_maskz_loadu_epi16(mask, w_at(at) + r * a_.w_stride * 2 + s * 64));
      }
  }

  struct PanelTask {
    std::byte* block;    // [step][two tiles] of w
    const std::byte* w;  // rows to fill the block from, or null
    const std::byte* x;  // [step][two tiles]
    int64_t steps;
    bool first;  // start from zero instead of from `sums`
    const std::byte* sums;
    std::byte* unsaved;
  };

  // sums (+)= block * x, left in the tiles. Their old content goes to `unsaved` first, each tile just before it is
  // needed: storing all at once would delay the next products.
  template <bool kCopy>
  FK_AMX static void multiply_panel(PanelTask task, const Prefetch& ahead) {
    asm volatile("" ::: "memory");  // the compiler does not know that tile loads read the stored data
    load_step<kCopy>(task, ahead.stride);
    _tile_stored(0, task.unsaved, 64);
    if (task.first)
      _tile_zero(0);
    else
      _tile_loadd(0, task.sums, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_stored(1, task.unsaved + 1024, 64);
    if (task.first)
      _tile_zero(1);
    else
      _tile_loadd(1, task.sums + 1024, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_stored(2, task.unsaved + 2048, 64);
    if (task.first)
      _tile_zero(2);
    else
      _tile_loadd(2, task.sums + 2048, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_stored(3, task.unsaved + 3072, 64);
    if (task.first)
      _tile_zero(3);
    else
      _tile_loadd(3, task.sums + 3072, 64);
    _tile_dpbf16ps(3, 5, 7);
    prefetch(task, ahead, 0);
    for (int64_t s = 1; s < task.steps; ++s) {
      load_step<kCopy>(task, ahead.stride);
      prefetch(task, ahead, s);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }

  template <bool kCopy>
  FK_AMX_INLINE static void load_step(PanelTask& task, int64_t w_stride) {
    _tile_stream_loadd(6, task.x, 64);
    _tile_stream_loadd(7, task.x + 1024, 64);
    if constexpr (kCopy) {
      _tile_stream_loadd(4, task.w, w_stride);
      _tile_stored(4, task.block, 64);
      _tile_stream_loadd(5, task.w + 16 * w_stride, w_stride);
      _tile_stored(5, task.block + 1024, 64);
      task.w += 64;
    } else {
      _tile_loadd(4, task.block, 64);
      _tile_loadd(5, task.block + 1024, 64);
    }
    task.x += kStepBytes;
    task.block += kStepBytes;
  }

  FK_AMX_INLINE static void prefetch(const PanelTask& task, const Prefetch& ahead, int64_t s) {
    for (int i = 0; i < 4; ++i) _mm_prefetch(task.sums + kSumsBytes + (s * 4 + i) * 64, _MM_HINT_T0);
    for (int64_t r = 0; r < ahead.rows; ++r) _mm_prefetch(ahead.w + r * ahead.stride + s * 64, _MM_HINT_T1);
  }

  FK_AMX static void save(std::byte* sums) {
    _tile_stored(0, sums, 64);
    _tile_stored(1, sums + 1024, 64);
    _tile_stored(2, sums + 2048, 64);
    _tile_stored(3, sums + 3072, 64);
    asm volatile("" ::: "memory");
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

  const std::byte* w_at(Place at) const {
    if (a_.w == nullptr) return nullptr;
    return static_cast<const std::byte*>(a_.w) + (at.n * a_.w_stride + at.step * kStepElements) * 2;
  }
  int64_t steps_at(int64_t step) const { return std::min(block_steps_, steps_ - step); }
  // Blocks of k one after the other, in each the panels.
  std::byte* panel(int64_t step, int64_t p) const {
    return packed_ + (step * panels_ + steps_at(step) * p) * kStepBytes;
  }

  const MatmulArgs& a_;
  const WeightBlocks& blocks_;
  int64_t row_, rows_, panels_;
  int64_t steps_, block_steps_;  // of k, and of a block of k
  int64_t columns_;              // per unit of work
  std::atomic<int64_t> next_{0};
  ScratchPerThread workspaces_;
  std::byte* packed_;
};

}  // namespace

void matmul_amx_bf16(const MatmulArgs& args, ThreadPool& pool) { matmul_amx_bf16_of(args, {}, pool); }

void matmul_amx_bf16_of(const MatmulArgs& args, const WeightBlocks& weights, ThreadPool& pool) {
  if (args.m == 0 || args.n == 0 || args.k == 0) return matmul_portable(args, pool);
  int64_t threads = pool.threads();
  for (int64_t row = 0; row < args.m; row += kPassRows) {
    Pass pass(args, weights, row, threads);
    pool.on_all([&](int thread) { pass.pack(thread, threads); });
    pool.on_all([&](int thread) { pass.multiply(thread); });
  }
}

}  // namespace fk
