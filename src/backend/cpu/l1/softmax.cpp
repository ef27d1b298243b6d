// Softmax on CPU: largest element, sum, quotients; e^x is computed twice rather than stored.
#include "ops/l1/softmax.h"

#include "backend/cpu/l1/row_max.h"
#include "backend/cpu/row_kernel.h"
#include "backend/cpu/vector_math.h"
#include "ops/register.h"

namespace fk {
namespace {

template <class T>
FK_INLINE double exp_sum_body(const T* x, float largest, int64_t n) {
  constexpr int64_t kBlock = 1024;  // short enough for an accurate float sum
  double total = 0;
  for (int64_t first = 0; first < n; first += kBlock) {
    int64_t last = std::min(first + kBlock, n);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = first; i < last; ++i) sum += vexp(load(x[i]) - largest);
    total += static_cast<double>(sum);
  }
  return total;
}

template <class T>
FK_INLINE void scaled_exp_body(const T* x, float largest, float scale, T* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], vexp(load(x[i]) - largest) * scale);
}

FK_SIMD_CLONES double exp_sum(const bf16* x, float largest, int64_t n) { return exp_sum_body(x, largest, n); }
FK_SIMD_CLONES double exp_sum(const f16* x, float largest, int64_t n) { return exp_sum_body(x, largest, n); }
FK_SIMD_CLONES double exp_sum(const float* x, float largest, int64_t n) { return exp_sum_body(x, largest, n); }
FK_SIMD_CLONES void scaled_exp(const bf16* x, float largest, float scale, bf16* out, int64_t n) {
  scaled_exp_body(x, largest, scale, out, n);
}
FK_SIMD_CLONES void scaled_exp(const f16* x, float largest, float scale, f16* out, int64_t n) {
  scaled_exp_body(x, largest, scale, out, n);
}
FK_SIMD_CLONES void scaled_exp(const float* x, float largest, float scale, float* out, int64_t n) {
  scaled_exp_body(x, largest, scale, out, n);
}

class SoftmaxThreePass final : public Softmax {
 public:
  using Softmax::Softmax;

  std::string_view refuse(Args args) const override { return refuse_floats({&args[0], &args[1]}); }

  void forward(Context& ctx, View x, View out) override {
    with_float(x.dtype(), [&]<class T>(T) {
      if (x.size(0) >= ctx.pool.threads() || pieces_per_row(x.size(1)) == 1)
        whole_rows<T>(ctx, x, out);
      else
        spread_rows<T>(ctx, x, out);
    });
  }

 private:
  // A row per thread: in the second and third pass it is in a cache.
  template <class T>
  static void whole_rows(Context& ctx, const View& x, const View& out) {
    int64_t N = x.size(1), length = piece_length(N);
    for_rows(ctx.pool, x.size(0), N, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* row = row_of<T>(x, r);
        float largest = row_max_number(row, N);
        double total = 0;
        for (int64_t first = 0; first < N; first += length)
          total += exp_sum(row + first, largest, std::min(length, N - first));
        scaled_exp(row, largest, static_cast<float>(1 / total), row_of<T>(out, r), N);
      }
    });
  }

  // Few wide rows, such as one row of logits: every pass is spread over all threads.
  template <class T>
  static void spread_rows(Context& ctx, const View& x, const View& out) {
    int64_t rows = x.size(0), N = x.size(1), pieces = pieces_per_row(N);
    float* largest = ctx.arena.make({{rows, pieces}, DType::kF32}).ptr<float>();
    double* sums = ctx.arena.make({{rows, pieces}, DType::kF64}).ptr<double>();
    auto row_largest = [&](int64_t r) { return *std::max_element(largest + r * pieces, largest + (r + 1) * pieces); };
    for_row_pieces(ctx.pool, rows, N, [&](int64_t r, int64_t piece, int64_t begin, int64_t end) {
      largest[r * pieces + piece] = row_max_number(row_of<T>(x, r) + begin, end - begin);
    });
    for_row_pieces(ctx.pool, rows, N, [&](int64_t r, int64_t piece, int64_t begin, int64_t end) {
      sums[r * pieces + piece] = exp_sum(row_of<T>(x, r) + begin, row_largest(r), end - begin);
    });
    for_row_pieces(ctx.pool, rows, N, [&](int64_t r, int64_t, int64_t begin, int64_t end) {
      double total = 0;
      for (int64_t piece = 0; piece < pieces; ++piece) total += sums[r * pieces + piece];
      scaled_exp(row_of<T>(x, r) + begin, row_largest(r), static_cast<float>(1 / total), row_of<T>(out, r) + begin,
                 end - begin);
    });
  }
};

FK_IMPLEMENTATION(Softmax, SoftmaxThreePass, "cpu.three_pass", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
