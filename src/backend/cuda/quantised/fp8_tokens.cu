#include "backend/cuda/quantised/fp8_tokens.h"

#include "backend/cuda/quantised/fp8_rows.cuh"

namespace fk::cuda {
namespace {

// A block has a row. The second reading finds it in the L1.
template <class T>
__global__ void __launch_bounds__(kFp8RowThreads)
    quantise_token(const T* x, int64_t x_stride, int64_t width, uint2* codes, float* scales) {
  constexpr int kElements = 8;  // of a thread at once
  __shared__ float scratch[33];
  let_next_start();
  wait_for_previous();
  const auto* row = reinterpret_cast<const Pack<T, kElements>*>(x + blockIdx.x * x_stride);
  const auto packs = static_cast<int>(width / kElements);
  float largest = 0;
  for (int i = static_cast<int>(threadIdx.x); i < packs; i += kFp8RowThreads) {
    const Pack<T, kElements> v = row[i];
#pragma unroll
    for (int e = 0; e < kElements; ++e) largest = fmaxf(largest, fabsf(to_float(v.at[e])));
  }
  const float scale = fp8_scale(reduce_block<Max>(largest, scratch)), inverse = 1 / scale;
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  for (int i = static_cast<int>(threadIdx.x); i < packs; i += kFp8RowThreads) {
    const Pack<T, kElements> v = row[i];
    uint32_t words[2] = {0, 0};
#pragma unroll
    for (int e = 0; e < kElements; e += 2) {
      const float2 pair{to_float(v.at[e]) * inverse, to_float(v.at[e + 1]) * inverse};
      words[e / 4] |= static_cast<uint32_t>(__nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, __NV_E4M3)) << (8 * (e % 4));
    }
    codes[blockIdx.x * static_cast<int64_t>(packs) + i] = {words[0], words[1]};
  }
}

}  // namespace

void quantise_tokens(const View& x, const View& codes, const View& scales, void* stream) {
  const int64_t stride = x.size(0) > 1 ? x.stride(0) : x.size(1);
  auto go = [&]<class T>(const T* from) {
    launch("quantise_token", quantise_token<T>, static_cast<unsigned>(x.size(0)), kFp8RowThreads, 0, stream, from,
           stride, x.size(1), static_cast<uint2*>(codes.data()), scales.ptr<float>());
  };
  if (x.dtype() == DType::kBF16)
    go(static_cast<const __nv_bfloat16*>(x.data()));
  else
    go(static_cast<const __half*>(x.data()));
}

}  // namespace fk::cuda
