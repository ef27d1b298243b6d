// The product of 16 rows of codes, two octets, with rows of x by the warps of a block, which split the columns.
//
// Codes go from memory to registers, become pairs of bf16 or f16 there, without their scales, and are multiplied by
// mma.m16n8k16, whose 8 columns are rows of x. The sum of each group of the format is multiplied by its scale in f32.
// So a code costs about two instructions, whatever the number of rows of x, and nothing is rounded but the sums.
#pragma once

#include "backend/cuda/device/tile.cuh"
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

// Where a thread finds its row of x in each tile of 8: that of lane / 4. Rows that do not exist count as zeros.
template <class T, int kTiles>
struct RowsOfX {
  const T* row[kTiles];
  bool exists[kTiles];
};

// Where the octets are.
struct Octets {
  StreamedMatrix low, high;
  int low_octet = 0, high_octet = 0;
  int length = 0;  // columns
};

// Adds this warp's part of the sums: of tile n, sums[n][2 h + i] is row lane / 4 of octet h times row 2 (lane % 4) + i
// of the tile. The first codes are loaded before `rows_of_x`, a function that gives RowsOfX, is called.
template <class T, class Codes, class Cut, int kTiles, class Rows>
__device__ __forceinline__ void multiply_octets(float (&sums)[kTiles][4], const Octets& w, Rows&& rows_of_x) {
  constexpr int kWarps = Cut::kWarps, kUnroll = Cut::kUnroll, kRound = kWarps * kUnroll;
  constexpr int kStep = Codes::kStep, kSlices = kStep / 16, kRun = Codes::kRun, kGroupSlices = kSlices / Codes::kScales;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row_of_octet = lane / 4, quad = lane % 4;
  const int steps = w.low.steps;

  uint4 codes[2][kUnroll][2];
  typename Codes::Record records[2][kUnroll][2];
  auto load = [&](int buffer, int at) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (at + u >= steps) continue;
      codes[buffer][u][0] = Codes::load_codes(w.low, w.length, w.low_octet, lane, at + u);
      codes[buffer][u][1] = Codes::load_codes(w.high, w.length, w.high_octet, lane, at + u);
      records[buffer][u][0] = Codes::load_record(w.low, w.low_octet, row_of_octet, at + u);
      records[buffer][u][1] = Codes::load_record(w.high, w.high_octet, row_of_octet, at + u);
    }
  };

  RowsOfX<T, kTiles> of_x;
  auto multiply_step = [&](const uint4(&codes_of)[2], const typename Codes::Record(&r)[2], int step) {
    uint32_t x[kTiles][2 * kSlices];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < kStep / (4 * kRun); ++i) {
        const int column = kStep * step + 4 * kRun * i + kRun * quad;
        load_run<kRun>(x[n] + i * kRun / 2, of_x.row[n] + column, of_x.exists[n] && column < w.length);
      }
    }
#pragma unroll
    for (int group = 0; group < Codes::kScales; ++group) {
      float part[kTiles][4] = {}, inputs[kTiles][4] = {};
#pragma unroll
      for (int i = 0; i < kGroupSlices; ++i) {
        const int slice = group * kGroupSlices + i;
        uint32_t a[2][2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          a[h][0] = Codes::template pair<T>(codes_of[h], r[h], slice, 0);
          a[h][1] = Codes::template pair<T>(codes_of[h], r[h], slice, 1);
        }
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
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
        for (int n = 0; n < kTiles; ++n) {
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
  of_x = rows_of_x();
  while (at < steps) {
    load(1, at + kRound);
    multiply(0, at);
    at += kRound;
    if (at >= steps) break;
    load(0, at + kRound);
    multiply(1, at);
    at += kRound;
  }
}

}  // namespace fk::cuda
