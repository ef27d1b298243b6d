#include "backend/cpu/matmul/matmul_blocked.h"

#include <algorithm>

#include "backend/cpu/for_items.h"
#include "backend/cpu/matmul/scratch.h"
#include "backend/cpu/matmul/split.h"
#include "core/check.h"

namespace fk {
namespace {

constexpr int64_t kRows = 512;     // of x per pass over the weights
constexpr int64_t kColumns = 128;  // of y per block: with kRows, 256 KiB of sums
constexpr int64_t kPadding = 16;   // floats between rows of sums, so that they do not share cache sets

int64_t round_up(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }

// One pass over the weights for up to kRows rows of x.
class Pass {
 public:
  Pass(const MatmulArgs& args, const BlockedKernel& kernel, int64_t row, int64_t rows, int64_t threads)
      : a_(args),
        kernel_(kernel),
        row_(row),
        rows_(rows),
        padded_(round_up(rows, kernel.lanes)),
        width_(kernel.lanes * kernel.vectors),
        k_block_(kernel.steps * kernel.k_per_step),
        c_stride_(padded_ + kPadding),
        copy_floats_(kernel.copy != nullptr ? kColumns * k_block_ : 0),
        element_(static_cast<int64_t>(dtype_size(args.dtype))),
        columns_(columns_of_a_turn(args.n, kernel.group, kColumns, threads)),
        panels_(panel_scratch(), threads, (copy_floats_ + (kColumns + kMaxGroup) * c_stride_) * 4) {
    int64_t blocks = (a_.k + k_block_ - 1) / k_block_;
    packed_ =
        reinterpret_cast<float*>(shared_scratch().at_least(static_cast<size_t>(blocks * kernel.steps * padded_) * 4));
  }

  void pack(int64_t thread, int64_t threads) const {
    int64_t panels = (padded_ + width_ - 1) / width_, blocks = (a_.k + k_block_ - 1) / k_block_;
    Range mine = split_range(panels * blocks, 1, thread, threads);
    for (int64_t i = mine.begin; i < mine.end; ++i) {
      int64_t k = i / panels * k_block_, p = i % panels * width_;
      kernel_.pack({at(a_.x, (row_ + p) * a_.x_stride + k), a_.x_stride, std::min(rows_ - p, width_), k_size(k),
                    panel_width(p), panel(k, p)});
    }
  }

  // The columns of y that a thread takes at a time.
  int64_t columns() const { return columns_; }

  // Those from n on.
  void multiply(int64_t thread, int64_t n) const {
    auto* copies = reinterpret_cast<float*>(panels_.of(thread));
    float* c = copies + copy_floats_;
    int64_t columns = std::min(columns_, a_.n - n);
    for (int64_t k = 0; k < a_.k; k += k_block_) {
      const void* w[kColumns + kMaxGroup];
      for (int64_t i = 0; i < columns + kMaxGroup; ++i) w[i] = weights(n, std::min(i, columns - 1), k, copies);
      for (int64_t i = 0; kernel_.copy != nullptr && i < columns; ++i)
        kernel_.copy({at(a_.w, (n + i) * a_.w_stride + k), k_size(k), copies + i * k_block_});
      for (int64_t p = 0; p < padded_; p += width_)
        for (int64_t g = 0; g < columns; g += kernel_.group)
          kernel_.multiply({panel(k, p), panel_width(p), w + g, k_size(k), c + g * c_stride_ + p, c_stride_, k == 0});
    }
    kernel_.store(
        {c, c_stride_, rows_, columns, a_.bias == nullptr ? nullptr : at(a_.bias, n),
         static_cast<std::byte*>(a_.y) + (row_ * a_.y_stride + n) * static_cast<int64_t>(dtype_size(a_.y_dtype)),
         a_.y_stride, a_.dtype, a_.y_dtype});
  }

 private:
  // Where the kernel finds row n + i of w from k on.
  const void* weights(int64_t n, int64_t i, int64_t k, const float* copies) const {
    return kernel_.copy == nullptr ? at(a_.w, (n + i) * a_.w_stride + k) : copies + i * k_block_;
  }
  const void* at(const void* base, int64_t element) const {
    return static_cast<const std::byte*>(base) + element * element_;
  }
  int64_t k_size(int64_t k) const { return std::min(k_block_, a_.k - k); }
  int64_t panel_width(int64_t p) const { return std::min(width_, padded_ - p); }
  // Blocks of k one after the other, in each the panels.
  float* panel(int64_t k, int64_t p) const {
    int64_t steps = (k_size(k) + kernel_.k_per_step - 1) / kernel_.k_per_step;
    return packed_ + k / kernel_.k_per_step * padded_ + steps * p;
  }

  const MatmulArgs& a_;
  const BlockedKernel& kernel_;
  int64_t row_, rows_, padded_, width_, k_block_;
  int64_t c_stride_, copy_floats_;  // of what each thread keeps: copied rows of w, then sums
  int64_t element_;
  int64_t columns_;
  ScratchPerThread panels_;
  float* packed_;
};

}  // namespace

void matmul_blocked(const MatmulArgs& args, ThreadPool& pool, const BlockedKernel& kernel) {
  FK_CHECK(kernel.group <= kMaxGroup && args.k > 0);
  int64_t threads = pool.threads();
  for (int64_t row = 0; row < args.m; row += kRows) {
    Pass pass(args, kernel, row, std::min(kRows, args.m - row), threads);
    pool.on_all([&](int thread) { pass.pack(thread, threads); });
    for_items(pool, ceil_div(args.n, pass.columns()),
              [&](int thread, int64_t i) { pass.multiply(thread, i * pass.columns()); });
  }
}

}  // namespace fk
