// LogSigmoid on CUDA.
#include "ops/l1/logsigmoid.h"

#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/map_rows.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

template <class T>
struct LogSigmoidOf {
  RowsOf<const T> x;
  RowsOf<float> out;
  float factor, least;

  __device__ void compute(int64_t row, int64_t i) const {
    const float v = to_float(x.row(row)[i]);
    const float y = ((v < 0 ? v : 0.0f) - log1pf(expf(-fabsf(v)))) * factor;
    out.row(row)[i] = y < least ? least : y;
  }
};

class LogSigmoidElements final : public LogSigmoid {
 public:
  using LogSigmoid::LogSigmoid;

  std::string_view refuse(Args args) const override {
    if (args[1]->dtype() != DType::kF32 || !args[1]->rows_contiguous()) return "out must be f32 with contiguous rows";
    return refuse_floats({&args[0]});
  }

  void forward(Context& ctx, View x, View out) override {
    with_float_type(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      const float least = init_.clamp_min < 0 ? static_cast<float>(init_.clamp_min) : -__builtin_inff();
      map_rows<1>(
          "logsigmoid",
          LogSigmoidOf<T>{rows_of<const T>(x), rows_of<float>(out), static_cast<float>(1 / init_.temperature), least},
          out, ctx.stream);
    });
  }
};

FK_IMPLEMENTATION(LogSigmoid, LogSigmoidElements, "cuda.elements", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
