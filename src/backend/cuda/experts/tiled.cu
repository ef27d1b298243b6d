// 32 x 32 tiles of the output, operands through shared memory as float, one multiply-add at a time.
#include "backend/cuda/experts/tiled.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/experts/epilogue.cuh"
#include "backend/cuda/experts/row_tile.cuh"

namespace fk::cuda {
namespace {

constexpr int kTile = 32;
constexpr int kRowsPerThread = 4;  // a block of 32 x 8 threads makes 32 x 32 outputs
constexpr int kWarps = kTile / kRowsPerThread;

template <class T>
__global__ void __launch_bounds__(kTile* kWarps) tiled_experts(const __grid_constant__ ExpertsCall call) {
  wait_for_previous();
  let_next_start();
  __shared__ float x_tile[kTile][kTile + 1], w_tile[kTile][kTile + 1];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first_feature = blockIdx.y * kTile;
  const RowTile tile = row_tile<kTile>(call.offsets, call.experts, 1, blockIdx.x);
  if (tile.expert < 0) return;  // the whole block
  const T* weight =
      static_cast<const T*>(call.weight) + static_cast<int64_t>(tile.expert) * call.features * call.length;
  // Of the rows that this thread loads; rows after the last are never stored.
  const T* x[kRowsPerThread];
#pragma unroll
  for (int i = 0; i < kRowsPerThread; ++i) {
    const int pair = call.sorted[min(tile.first + warp + i * kWarps, tile.last - 1)];
    x[i] = static_cast<const T*>(call.x) + pair / call.pairs_per_row * call.x_stride;
  }
  float sum[kRowsPerThread] = {};
  for (int k = 0; k < call.length; k += kTile) {
    const bool inside = k + lane < call.length;
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) {
      const int r = warp + i * kWarps, feature = first_feature + r;
      x_tile[r][lane] = inside ? to_float(x[i][k + lane]) : 0.0f;
      w_tile[r][lane] = inside && feature < call.features
                            ? to_float(weight[static_cast<int64_t>(feature) * call.length + k + lane])
                            : 0.0f;
    }
    __syncthreads();
#pragma unroll 8
    for (int j = 0; j < kTile; ++j)
#pragma unroll
      for (int i = 0; i < kRowsPerThread; ++i) sum[i] += x_tile[warp + i * kWarps][j] * w_tile[lane][j];
    __syncthreads();
  }
  const int feature = first_feature + lane;
  if (feature >= call.features) return;
  const float shift = bias_of<T>(call, call.features, tile.expert, feature);
#pragma unroll
  for (int i = 0; i < kRowsPerThread; ++i) {
    const int at = tile.first + warp + i * kWarps;
    if (at < tile.last)
      static_cast<T*>(call.out)[call.sorted[at] * call.out_stride + feature] = from_float<T>(sum[i] + shift);
  }
}

}  // namespace

void experts_tiled(const ExpertsCall& call, void* stream) {
  if (call.pairs == 0) return;
  with_float_type(call.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch("tiled_experts", tiled_experts<T>,
           dim3(static_cast<unsigned>(most_row_tiles(call, kTile)), blocks_for(call.features, kTile)), kTile * kWarps,
           0, stream, call);
  });
}

}  // namespace fk::cuda
