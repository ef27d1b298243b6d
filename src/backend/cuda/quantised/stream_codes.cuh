// Few rows times matrices of codes: limited by reading the codes, so the goal is to keep loads in flight and to spend
// few instructions on each code.
//
// A block has 16 rows of W as two octets, and its warps split the columns. Codes go from memory to registers, become
// pairs of bf16 or f16 there, without their scales, and are multiplied by mma.m16n8k16, whose 8 columns are tokens. The
// sum of each group of the format is multiplied by its scale in f32. So a code costs about two instructions, whatever
// the number of tokens, and nothing is rounded but the sums.
//
// The first loads are issued before the block waits for the previous kernel: matrices do not depend on it.
#pragma once

#include <iterator>

#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/tile.cuh"
#include "backend/cuda/matmul/stream_call.cuh"
#include "backend/cuda/matmul/stream_tuner.h"
#include "backend/cuda/quantised/stored_codes.cuh"
#include "backend/cuda/quantised/streamed_call.h"

namespace fk::cuda {

// One way to split the work.
template <int kWarps_, int kUnroll_>
struct CodeCut {
  static constexpr int kWarps = kWarps_;    // of a block
  static constexpr int kUnroll = kUnroll_;  // steps a warp takes at once
};

// kRun adjacent elements of a row of x, as pairs.
template <int kRun, class T>
__device__ __forceinline__ void load_run(uint32_t* pairs, const T* x, bool inside) {
  if constexpr (kRun == 4) {
    const uint2 v = inside ? *reinterpret_cast<const uint2*>(x) : uint2{0, 0};
    pairs[0] = v.x;
    pairs[1] = v.y;
  } else {
#pragma unroll
    for (int i = 0; i < kRun / 8; ++i) {
      const uint4 v = inside ? reinterpret_cast<const uint4*>(x)[i] : uint4{0, 0, 0, 0};
      pairs[4 * i] = v.x;
      pairs[4 * i + 1] = v.y;
      pairs[4 * i + 2] = v.z;
      pairs[4 * i + 3] = v.w;
    }
  }
}

template <class T, class Codes, class Cut, int kTokenTiles>
__global__ void __launch_bounds__(32 * Cut::kWarps) stream_codes(const __grid_constant__ StreamedCall c) {
  constexpr int kWarps = Cut::kWarps, kUnroll = Cut::kUnroll, kRound = kWarps * kUnroll;
  constexpr int kStep = Codes::kStep, kSlices = kStep / 16, kRun = Codes::kRun, kGroupSlices = kSlices / Codes::kScales;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row_of_octet = lane / 4, quad = lane % 4;
  const bool gated = c.epilogue != StreamEpilogue::kPlain;

  int which = 0;
  if (!gated)
    while (which + 1 < c.matrices && static_cast<int>(blockIdx.x) >= c.matrix[which + 1].first_tile) ++which;
  const StreamedMatrix low = c.matrix[which], high = gated ? c.matrix[1] : low;
  const int tile = static_cast<int>(blockIdx.x) - low.first_tile;
  const int low_octet = gated ? tile : 2 * tile, high_octet = gated ? tile : 2 * tile + 1;
  const int steps = low.steps;

  uint4 codes[2][kUnroll][2];
  typename Codes::Record records[2][kUnroll][2];
  auto load = [&](int buffer, int at) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (at + u >= steps) continue;
      codes[buffer][u][0] = Codes::load_codes(low, c.length, low_octet, lane, at + u);
      codes[buffer][u][1] = Codes::load_codes(high, c.length, high_octet, lane, at + u);
      records[buffer][u][0] = Codes::load_record(low, low_octet, row_of_octet, at + u);
      records[buffer][u][1] = Codes::load_record(high, high_octet, row_of_octet, at + u);
    }
  };

  float sums[kTokenTiles][4] = {};
  auto multiply_step = [&](const uint4(&w)[2], const typename Codes::Record(&r)[2], int step) {
    uint32_t x[kTokenTiles][2 * kSlices];
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
      const int token = 8 * n + row_of_octet;
      const T* row = static_cast<const T*>(c.x) + min(token, c.tokens - 1) * c.x_stride;
#pragma unroll
      for (int i = 0; i < kStep / (4 * kRun); ++i) {
        const int column = kStep * step + 4 * kRun * i + kRun * quad;
        load_run<kRun>(x[n] + i * kRun / 2, row + column, token < c.tokens && column < c.length);
      }
    }
#pragma unroll
    for (int group = 0; group < Codes::kScales; ++group) {
      float part[kTokenTiles][4] = {}, inputs[kTokenTiles][4] = {};
#pragma unroll
      for (int i = 0; i < kGroupSlices; ++i) {
        const int slice = group * kGroupSlices + i;
        uint32_t a[2][2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          a[h][0] = Codes::template pair<T>(w[h], r[h], slice, 0);
          a[h][1] = Codes::template pair<T>(w[h], r[h], slice, 1);
        }
#pragma unroll
        for (int n = 0; n < kTokenTiles; ++n) {
          const uint32_t b0 = x[n][2 * slice], b1 = x[n][2 * slice + 1];
          multiply_tile<T>(part[n], a[0][0], a[1][0], a[0][1], a[1][1], b0, b1);
          if constexpr (Codes::kMinimums) {
            constexpr uint32_t kOnes = PairOf<T>::kOnes;
            multiply_tile<T>(inputs[n], kOnes, kOnes, kOnes, kOnes, b0, b1);
          }
        }
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float scale = Codes::scale(r[h], group);
#pragma unroll
        for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
          for (int i = 2 * h; i < 2 * h + 2; ++i) {
            sums[n][i] = fmaf(scale, part[n][i], sums[n][i]);
            if constexpr (Codes::kMinimums) sums[n][i] = fmaf(-Codes::minimum(r[h], group), inputs[n][i], sums[n][i]);
          }
        }
      }
    }
  };
  auto multiply = [&](int buffer, int at) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (at + u < steps) multiply_step(codes[buffer][u], records[buffer][u], at + u);
  };

  int at = warp * kUnroll;
  load(0, at);
  let_next_start();
  wait_for_previous();
  while (at < steps) {
    load(1, at + kRound);
    multiply(0, at);
    at += kRound;
    if (at >= steps) break;
    load(0, at + kRound);
    multiply(1, at);
    at += kRound;
  }

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
