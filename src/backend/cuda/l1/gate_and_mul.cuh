// gate(x[:, :F]) * x[:, F:]: the shape that SiluAndMul and GeluAndMul share.
#pragma once

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/l1/packs.cuh"

namespace fk::cuda {

inline constexpr int kGateThreads = 256;
inline constexpr int kGatePacks = 2;  // of gate and of up that a thread has in flight

// numerator / (1 + e^exponent). For 16-bit results the fast approximate instructions are accurate enough: at |exponent|
// = 20 their error is 3e-6, a third of the margin of f16 besides its own rounding. If e^exponent is beyond 2^126 the
// quotient is 0.
template <class T>
__device__ __forceinline__ float over_one_plus_exp(float numerator, float exponent) {
  if constexpr (sizeof(T) == 4)
    return numerator / (1.0f + expf(exponent));
  else
    return __fdividef(numerator, 1.0f + __expf(exponent));
}

// Gate has template <class T> static float of(float): T is what the result is rounded to.
template <class T, int N, class Gate>
__global__ void __launch_bounds__(kGateThreads)
    gate_and_mul_rows(const T* x, int64_t x_stride, T* out, int64_t out_stride, int64_t width, unsigned pieces) {
  let_next_start();
  wait_for_previous();
  const int64_t row = blockIdx.x / pieces;
  const int64_t first = (blockIdx.x % pieces * static_cast<int64_t>(kGateThreads * kGatePacks) + threadIdx.x) * N;
  const T* gates = x + row * x_stride;
  const T* ups = gates + width;
  T* to = out + row * out_stride;
  Pack<T, N> gate[kGatePacks], up[kGatePacks];
#pragma unroll
  for (int j = 0; j < kGatePacks; ++j) {
    const int64_t i = first + j * (kGateThreads * N);
    if (i < width) {
      gate[j] = load_pack<T, N>(gates + i);
      up[j] = load_pack<T, N>(ups + i);
    }
  }
#pragma unroll
  for (int j = 0; j < kGatePacks; ++j) {
    const int64_t i = first + j * (kGateThreads * N);
    if (i >= width) continue;
#pragma unroll
    for (int k = 0; k < N; ++k)
      gate[j].at[k] = from_float<T>(Gate::template of<T>(to_float(gate[j].at[k])) * to_float(up[j].at[k]));
    store_pack<T, N>(to + i, gate[j]);
  }
}

template <class Gate>
void gate_and_mul(std::string_view name, const View& x, const View& out, void* stream) {
  int64_t F = out.size(1);
  // A row of x is as long as two rows of out: if rows of out fit packs and rows of x are aligned, the up halves are
  // aligned too.
  with_packs(x.dtype(), rows_fit_packs(x) && rows_fit_packs(out), [&](auto type, auto n) {
    using T = typename decltype(type)::type;
    constexpr int N = decltype(n)::value;
    unsigned pieces = blocks_for(F, kGateThreads * kGatePacks * N);
    launch(name, gate_and_mul_rows<T, N, Gate>, static_cast<unsigned>(out.size(0)) * pieces, kGateThreads, 0, stream,
           static_cast<const T*>(x.data()), x.stride(0), static_cast<T*>(out.data()), out.stride(0), F, pieces);
  });
}

}  // namespace fk::cuda
