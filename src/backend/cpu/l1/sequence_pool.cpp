// SequencePool on CPU: sequences are distributed over the threads, and columns summed in blocks that stay in L1.
#include "ops/l1/sequence_pool.h"

#include <algorithm>

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "ops/register.h"

namespace fk {
namespace {

template <class T>
FK_INLINE void add_row_body(const T* x, float* __restrict sums, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sums[i] += load(x[i]);
}
FK_SIMD_CLONES void add_row(const bf16* x, float* __restrict sums, int64_t n) { add_row_body(x, sums, n); }
FK_SIMD_CLONES void add_row(const f16* x, float* __restrict sums, int64_t n) { add_row_body(x, sums, n); }
FK_SIMD_CLONES void add_row(const float* x, float* __restrict sums, int64_t n) { add_row_body(x, sums, n); }

template <class T>
FK_INLINE void scale_row_body(const float* sums, float factor, T* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], sums[i] * factor);
}
FK_SIMD_CLONES void scale_row(const float* sums, float factor, bf16* out, int64_t n) {
  scale_row_body(sums, factor, out, n);
}
FK_SIMD_CLONES void scale_row(const float* sums, float factor, f16* out, int64_t n) {
  scale_row_body(sums, factor, out, n);
}
FK_SIMD_CLONES void scale_row(const float* sums, float factor, float* out, int64_t n) {
  scale_row_body(sums, factor, out, n);
}

class SequencePoolBlocks final : public SequencePool {
 public:
  using SequencePool::SequencePool;

  std::string_view refuse(Args args) const override {
    std::string_view why = refuse_call(args);
    if (!why.empty()) return why;
    if (init_.float_output && args[2]->dtype() == DType::kF32 && args[2]->rows_contiguous())
      return refuse_floats({&args[0]});
    return refuse_floats({&args[0], &args[2]});
  }

  void forward(Context& ctx, View x, View cu_seqlens, View out) override {
    int64_t sequences = out.size(0), D = out.size(1);
    const auto* starts = cu_seqlens.ptr<int32_t>();
    float* sums = ctx.arena.make({{sequences, D}, DType::kF32}).ptr<float>();
    with_float(x.dtype(), [&]<class T>(T) {
      ctx.pool.parallel_for(sequences, 1, [&](int64_t begin, int64_t end) {
        for (int64_t s = begin; s < end; ++s) {
          float factor = add_up<T>(x, rows_of(starts[s], starts[s + 1]), sums + s * D, D);
          if (out.dtype() == DType::kF32)
            scale_row(sums + s * D, factor, row_of<float>(out, s), D);
          else
            scale_row(sums + s * D, factor, row_of<T>(out, s), D);
        }
      });
    });
  }

 private:
  struct Rows {
    int64_t begin, end;
  };
  Rows rows_of(int64_t begin, int64_t end) const {
    if (init_.pooling == "cls") return {begin, std::min(end, begin + 1)};
    if (init_.pooling == "last") return {std::max(begin, end - 1), end};
    return {begin, end};
  }

  // Sums of the rows; returns what they are multiplied by.
  template <class T>
  float add_up(const View& x, Rows rows, float* sums, int64_t D) const {
    constexpr int64_t kColumns = 1024;
    std::fill_n(sums, D, 0.0f);
    for (int64_t first = 0; first < D; first += kColumns)
      for (int64_t t = rows.begin; t < rows.end; ++t)
        add_row(row_of<T>(x, t) + first, sums + first, std::min(kColumns, D - first));
    return 1 / static_cast<float>(std::max<int64_t>(rows.end - rows.begin, 1));
  }
};

FK_IMPLEMENTATION(SequencePool, SequencePoolBlocks, "cpu.blocks", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
