// LogSigmoid on CPU.
#include "ops/l1/logsigmoid.h"

#include <limits>

#include "backend/cpu/l1/activations.h"
#include "backend/cpu/row_kernel.h"
#include "ops/register.h"

namespace fk {
namespace {

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
