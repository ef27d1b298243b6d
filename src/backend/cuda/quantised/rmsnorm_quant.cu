// `rmsnorm_quant` on CUDA.
#include "ops/l1/rmsnorm_quant.h"

#include "backend/cuda/quantised/fp8_rows.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(kFp8RowThreads)
    norm_quantise(const T* x, int64_t x_stride, const T* weight, float eps, const Fp8Rows out) {
  __shared__ float scratch[33];
  let_next_start();
  wait_for_previous();
  const T* row = x + blockIdx.x * x_stride;
  float squares = 0;
  for (int64_t i = threadIdx.x; i < out.width; i += kFp8RowThreads) {
    const float v = to_float(row[i]);
    squares = fmaf(v, v, squares);
  }
  squares = reduce_block<Sum>(squares, scratch);
  const float scale = 1.0f / sqrtf(squares / static_cast<float>(out.width) + eps);
  store_fp8_row(out, blockIdx.x, scratch, [&](int64_t i) { return to_float(row[i]) * scale * to_float(weight[i]); });
}

class RMSNormQuantRows final : public RMSNormQuant {
 public:
  using RMSNormQuant::RMSNormQuant;

  std::string_view refuse(Args args) const override {
    if (args[0]->dtype() != init_.dtype) return "x and the weight have different dtypes";
    return refuse_fp8_rows(*args[0], *args[1], *args[2]);
  }

  void forward(Context& ctx, View x, View out, View scales) override {
    with_float_type(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      launch("norm_quantise", norm_quantise<T>, static_cast<unsigned>(x.size(0)), kFp8RowThreads, 0, ctx.stream,
             static_cast<const T*>(x.data()), x.stride(0), static_cast<const T*>(weight().data()),
             static_cast<float>(init_.eps), fp8_rows(out, scales));
    });
  }
};

FK_IMPLEMENTATION(RMSNormQuant, RMSNormQuantRows, "cuda.row_per_block", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
