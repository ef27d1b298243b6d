// Few rows times matrices of codes: limited by reading the codes, so the goal is to keep loads in flight and to spend
// few instructions on each code. A block has 16 rows of W as two octets (octet_product.cuh).
//
// The first loads are issued before the block waits for the previous kernel: matrices do not depend on it.
#pragma once

#include <iterator>

#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/matmul/stream_call.cuh"
#include "backend/cuda/matmul/stream_tuner.h"
#include "backend/cuda/quantised/octet_product.cuh"

namespace fk::cuda {

template <class T, class Codes, class Cut, int kTokenTiles>
__global__ void __launch_bounds__(32 * Cut::kWarps) stream_codes(const __grid_constant__ StreamedCall c) {
  constexpr int kWarps = Cut::kWarps;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row_of_octet = lane / 4, quad = lane % 4;
  const bool gated = c.epilogue != StreamEpilogue::kPlain;

  int which = 0;
  if (!gated)
    while (which + 1 < c.matrices && static_cast<int>(blockIdx.x) >= c.matrix[which + 1].first_tile) ++which;
  const StreamedMatrix low = c.matrix[which], high = gated ? c.matrix[1] : low;
  const int tile = static_cast<int>(blockIdx.x) - low.first_tile;
  const Octets octets{low, high, gated ? tile : 2 * tile, gated ? tile : 2 * tile + 1, c.length};

  float sums[kTokenTiles][4] = {};
  multiply_octets<T, Codes, Cut>(sums, octets, [&] {
    let_next_start();
    wait_for_previous();
    RowsOfX<T, kTokenTiles> x;
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
      const int token = 8 * n + row_of_octet;
      x.row[n] = static_cast<const T*>(c.x) + min(token, c.tokens - 1) * c.x_stride;
      x.exists[n] = token < c.tokens;
    }
    return x;
  });

  // Every warp holds a part of each sum.
  constexpr int kTokens = 8 * kTokenTiles;
  __shared__ float parts[kWarps][16][kTokens + 1];
#pragma unroll
  for (int n = 0; n < kTokenTiles; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) parts[warp][row_of_octet + 8 * (i / 2)][8 * n + 2 * quad + i % 2] = sums[n][i];
  __syncthreads();
  const int features = gated ? 8 : 16;
  for (int i = static_cast<int>(threadIdx.x); i < features * c.tokens; i += 32 * kWarps) {
    const int in_block = i % features, token = i / features, feature = features * tile + in_block;
    if (feature >= low.rows) continue;
    auto total = [&](const StreamedMatrix& m, int row) {
      float all = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) all += parts[w][row][token];
      if (m.divisor != nullptr) all /= *m.divisor;
      if (c.bias != nullptr) all += to_float(static_cast<const T*>(c.bias)[m.first_column + feature]);
      return all;
    };
    float value = total(low, in_block);
    if (gated) {
      // Separate products would be stored in T; rounding here gives the same result.
      const float gate = to_float(from_float<T>(value)), up = to_float(from_float<T>(total(high, in_block + 8)));
      value = (c.epilogue == StreamEpilogue::kSiluAndMul ? silu(gate) : gelu_tanh(gate)) * up;
    }
    const int64_t to = token * c.out_stride + (gated ? 0 : low.first_column) + feature;
    if (c.float_out)
      static_cast<float*>(c.out)[to] = value;
    else
      static_cast<T*>(c.out)[to] = from_float<T>(value);
  }
}

template <class T, class Codes, class Cut, int kTokenTiles>
void launch_codes(const StreamedCall& call, unsigned blocks, void* stream) {
  launch("stream_codes", stream_codes<T, Codes, Cut, kTokenTiles>, blocks, 32 * Cut::kWarps, 0, stream, call);
}

template <class T, class Codes>
void stream_typed(const StreamedCall& call, std::string_view name, unsigned blocks, void* stream) {
  using Launch = void (*)(const StreamedCall&, unsigned, void*);
  if (call.tokens > 8) return launch_codes<T, Codes, CodeCut<8, 2>, 2>(call, blocks, stream);
  static constexpr Launch kCuts[] = {launch_codes<T, Codes, CodeCut<8, 2>, 1>,
                                     launch_codes<T, Codes, CodeCut<16, 2>, 1>,
                                     launch_codes<T, Codes, CodeCut<4, 4>, 1>};
  int64_t rows = 0;
  for (int i = 0; i < call.matrices; ++i) rows += call.matrix[i].rows;
  const MatmulProblem problem{.rows = call.tokens,
                              .out_features = rows,
                              .in_features = call.length,
                              .dtype = call.dtype,
                              .out_dtype = call.float_out ? DType::kF32 : call.dtype};
  int cut = stream_cut(
      problem, call.epilogue, std::size(kCuts), stream, [&](int tried) { kCuts[tried](call, blocks, stream); }, name);
  kCuts[cut](call, blocks, stream);
}

// `name`: of the format, for the stored choice of a split.
template <class Codes>
void multiply_streamed_codes(StreamedCall call, std::string_view name, void* stream) {
  const int tile = call.epilogue == StreamEpilogue::kPlain ? 16 : 8;
  int blocks = 0;
  for (int i = 0; i < call.matrices; ++i) {
    call.matrix[i].first_tile = i > 0 && tile == 8 ? 0 : blocks;
    if (i == 0 || tile == 16) blocks += (call.matrix[i].rows + tile - 1) / tile;
  }
  if (call.tokens == 0) return;
  if (call.dtype == DType::kBF16)
    stream_typed<__nv_bfloat16, Codes>(call, name, static_cast<unsigned>(blocks), stream);
  else
    stream_typed<__half, Codes>(call, name, static_cast<unsigned>(blocks), stream);
}

}  // namespace fk::cuda
