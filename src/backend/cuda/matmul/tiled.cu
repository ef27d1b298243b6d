// 32 x 32 tiles of the output, operands through shared memory as float, one multiply-add at a time.
#include "backend/cuda/matmul/tiled.h"

#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/launch.cuh"

namespace fk::cuda {
namespace {

constexpr int kTile = 32;
constexpr int kRowsPerThread = 4;  // a block of 32 x 8 threads makes 32 x 32 outputs

template <class T, class Out>
__global__ void tiled(const T* x, const T* weight, const T* bias, Out* out, int rows, int features, int length,
                      int64_t x_stride, int64_t out_stride) {
  wait_for_previous();
  let_next_start();
  __shared__ float x_tile[kTile][kTile + 1], w_tile[kTile][kTile + 1];
  const int first_row = blockIdx.y * kTile, first_feature = blockIdx.x * kTile;
  const int lane = threadIdx.x, warp = threadIdx.y;
  float sum[kRowsPerThread] = {};
  for (int k = 0; k < length; k += kTile) {
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) {
      const int r = warp + i * (kTile / kRowsPerThread);
      const bool inside = k + lane < length;
      x_tile[r][lane] = inside && first_row + r < rows ? to_float(x[(first_row + r) * x_stride + k + lane]) : 0.0f;
      w_tile[r][lane] = inside && first_feature + r < features
                            ? to_float(weight[static_cast<int64_t>(first_feature + r) * length + k + lane])
                            : 0.0f;
    }
    __syncthreads();
#pragma unroll 8
    for (int j = 0; j < kTile; ++j)
#pragma unroll
      for (int i = 0; i < kRowsPerThread; ++i)
        sum[i] += x_tile[warp + i * (kTile / kRowsPerThread)][j] * w_tile[lane][j];
    __syncthreads();
  }
  const int feature = first_feature + lane;
  if (feature >= features) return;
  const float shift = bias != nullptr ? to_float(bias[feature]) : 0.0f;
#pragma unroll
  for (int i = 0; i < kRowsPerThread; ++i) {
    const int row = first_row + warp + i * (kTile / kRowsPerThread);
    if (row < rows) out[row * out_stride + feature] = from_float<Out>(sum[i] + shift);
  }
}

}  // namespace

void matmul_tiled(const MatmulProblem& p, const MatmulOperands& o, void* stream) {
  with_float_type(p.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_float_type(p.out_dtype, [&](auto out_type) {
      using Out = typename decltype(out_type)::type;
      launch("tiled", tiled<T, Out>, dim3(blocks_for(p.out_features, kTile), blocks_for(p.rows, kTile)),
             dim3(kTile, kTile / kRowsPerThread), 0, stream, static_cast<const T*>(o.x),
             static_cast<const T*>(o.weight), p.bias ? static_cast<const T*>(o.bias) : nullptr,
             static_cast<Out*>(o.out), static_cast<int>(p.rows), static_cast<int>(p.out_features),
             static_cast<int>(p.in_features), p.x_stride, p.out_stride);
    });
  });
}

}  // namespace fk::cuda
