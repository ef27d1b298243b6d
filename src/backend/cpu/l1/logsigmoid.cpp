// LogSigmoid on CPU.
#include "ops/l1/logsigmoid.h"

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/vector_math.h"
#include "ops/register.h"

namespace fk {
namespace {

// min(x, 0) - log(1 + e^-|x|), and log(1 + y) = 2 atanh(y / (2 + y)), an odd series that is short up to 1/3.
FK_INLINE float log_of_logistic(float x) {
  float y = vexp_bounded(x < 0 ? x : -x);
  float s = y / (2.0f + y), s2 = s * s;
  float p = 1.0f / 15;
  p = p * s2 + 1.0f / 13;
  p = p * s2 + 1.0f / 11;
  p = p * s2 + 1.0f / 9;
  p = p * s2 + 1.0f / 7;
  p = p * s2 + 1.0f / 5;
  p = p * s2 + 1.0f / 3;
  p = p * s2 + 1.0f;
  float r = (x < 0 ? x : 0.0f) - 2.0f * s * p;
  return x != x ? x : r;
}

template <class T>
FK_INLINE void log_sigmoid_body(const T* x, float* out, int64_t n, float factor, float least) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    float y = log_of_logistic(load(x[i])) * factor;
    out[i] = y < least ? least : y;
  }
}
FK_SIMD_CLONES void log_sigmoid_row(const bf16* x, float* out, int64_t n, float factor, float least) {
  log_sigmoid_body(x, out, n, factor, least);
}
FK_SIMD_CLONES void log_sigmoid_row(const f16* x, float* out, int64_t n, float factor, float least) {
  log_sigmoid_body(x, out, n, factor, least);
}
FK_SIMD_CLONES void log_sigmoid_row(const float* x, float* out, int64_t n, float factor, float least) {
  log_sigmoid_body(x, out, n, factor, least);
}

class LogSigmoidRows final : public LogSigmoid {
 public:
  using LogSigmoid::LogSigmoid;

  std::string_view refuse(Args args) const override {
    if (args[1]->dtype() != DType::kF32 || !args[1]->rows_contiguous()) return "out must be f32 with contiguous rows";
    return refuse_floats({&args[0]});
  }

  void forward(Context& ctx, View x, View out) override {
    const auto factor = static_cast<float>(1 / init_.temperature);
    const float least =
        init_.clamp_min < 0 ? static_cast<float>(init_.clamp_min) : -std::numeric_limits<float>::infinity();
    with_float(x.dtype(), [&]<class T>(T) {
      for_row_pieces(ctx.pool, out.size(0), out.size(1), [&](int64_t r, int64_t, int64_t begin, int64_t end) {
        log_sigmoid_row(row_of<T>(x, r) + begin, row_of<float>(out, r) + begin, end - begin, factor, least);
      });
    });
  }
};

FK_IMPLEMENTATION(LogSigmoid, LogSigmoidRows, "cpu.rows", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
