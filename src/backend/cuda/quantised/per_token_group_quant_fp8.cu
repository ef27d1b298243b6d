// `per_token_group_quant_fp8` on CUDA.
#include "ops/l1/per_token_group_quant_fp8.h"

#include "backend/cuda/quantised/fp8_rows.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(kFp8RowThreads) quantise_rows(const T* x, int64_t x_stride, const Fp8Rows out) {
  __shared__ float scratch[33];
  let_next_start();
  wait_for_previous();
  const T* row = x + blockIdx.x * x_stride;
  store_fp8_row(out, blockIdx.x, scratch, [&](int64_t i) { return to_float(row[i]); });
}

class PerTokenGroupQuantFp8Rows final : public PerTokenGroupQuantFp8 {
 public:
  using PerTokenGroupQuantFp8::PerTokenGroupQuantFp8;

  std::string_view refuse(Args args) const override { return refuse_fp8_rows(*args[0], *args[1], *args[2]); }

  void forward(Context& ctx, View x, View x_q, View x_s) override {
    with_float_type(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      launch("quantise_rows", quantise_rows<T>, static_cast<unsigned>(x.size(0)), kFp8RowThreads, 0, ctx.stream,
             static_cast<const T*>(x.data()), x.stride(0), fp8_rows(x_q, x_s));
    });
  }
};

FK_IMPLEMENTATION(PerTokenGroupQuantFp8, PerTokenGroupQuantFp8Rows, "cuda.row_per_block", DeviceKind::kCuda, 0,
                  nullptr);

}  // namespace
}  // namespace fk::cuda
