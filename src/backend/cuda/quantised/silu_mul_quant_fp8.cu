// `silu_mul_quant_fp8` on CUDA.
#include "ops/l1/silu_mul_quant_fp8.h"

#include "backend/cuda/quantised/fp8_rows.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(kFp8RowThreads) silu_mul_quantise(const T* x, int64_t x_stride, const Fp8Rows out) {
  __shared__ float scratch[33];
  let_next_start();
  wait_for_previous();
  const T *gates = x + blockIdx.x * x_stride, *ups = gates + out.width;
  store_fp8_row(out, blockIdx.x, scratch, [&](int64_t i) {
    const float gate = to_float(gates[i]);
    return gate / (1 + expf(-gate)) * to_float(ups[i]);
  });
}

class SiluMulQuantFp8Rows final : public SiluMulQuantFp8 {
 public:
  using SiluMulQuantFp8::SiluMulQuantFp8;

  std::string_view refuse(Args args) const override { return refuse_fp8_rows(*args[0], *args[1], *args[2]); }

  void forward(Context& ctx, View x, View out, View scales) override {
    with_float_type(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      launch("silu_mul_quantise", silu_mul_quantise<T>, static_cast<unsigned>(x.size(0)), kFp8RowThreads, 0, ctx.stream,
             static_cast<const T*>(x.data()), x.stride(0), fp8_rows(out, scales));
    });
  }
};

FK_IMPLEMENTATION(SiluMulQuantFp8, SiluMulQuantFp8Rows, "cuda.row_per_block", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
