#include "backend/cpu/matmul/matmul_dot.h"

#include "backend/cpu/matmul/split.h"
#include "core/check.h"

namespace fk {
namespace {

template <class T, class Out>
void store_sums(const MatmulArgs& a, const float* sums, int64_t n, int64_t rows) {
  auto* bias = static_cast<const T*>(a.bias);
  for (int64_t m = 0; m < a.m; ++m) {
    Out* y = static_cast<Out*>(a.y) + m * a.y_stride + n;
    const float* sum = sums + m * kDotPiece;
    if (bias == nullptr)
      for (int64_t i = 0; i < rows; ++i) y[i] = static_cast<Out>(sum[i]);
    else
      for (int64_t i = 0; i < rows; ++i) y[i] = static_cast<Out>(sum[i] + static_cast<float>(bias[n + i]));
  }
}

}  // namespace

void matmul_dot(const MatmulArgs& args, ThreadPool& pool, DotKernel kernel) {
  FK_CHECK(args.m <= kDotMaxRows);
  auto store = args.dtype == DType::kBF16
                   ? (args.y_dtype == DType::kBF16 ? store_sums<bf16, bf16> : store_sums<bf16, float>)
                   : (args.y_dtype == DType::kBF16 ? store_sums<float, bf16> : store_sums<float, float>);
  const auto row_bytes = args.w_stride * static_cast<int64_t>(dtype_size(args.dtype));
  pool.on_all([&](int thread) {
    float sums[kDotMaxRows * kDotPiece];
    Range range = split_range(args.n, 8, thread, pool.threads());
    for (int64_t n = range.begin; n < range.end; n += kDotPiece) {
      int64_t rows = range.end - n < kDotPiece ? range.end - n : kDotPiece;
      kernel({static_cast<const std::byte*>(args.w) + n * row_bytes, args.w_stride, rows, args.x, args.x_stride, args.m,
              args.k, sums});
      store(args, sums, n, rows);
    }
  });
}

}  // namespace fk
