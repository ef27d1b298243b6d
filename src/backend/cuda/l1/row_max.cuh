// Device functions: the order of floats, and the results of row_maxima().
#pragma once

#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/row_max.h"

namespace fk::cuda {

// Maps a float to an integer with the same order. Zeros of either sign are equal, every NaN is above infinity.
__device__ __forceinline__ uint32_t order_key(float x) {
  const uint32_t bits = __float_as_uint(x + 0.0f);  // -0 + 0 is +0
  const uint32_t key = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return x != x ? 0xffffffffu : key;
}

__device__ __forceinline__ uint64_t packed_max(float x, uint32_t index) {
  return static_cast<uint64_t>(order_key(x)) << 32 | static_cast<uint32_t>(~index);
}
__device__ __forceinline__ uint32_t index_of(uint64_t packed) { return ~static_cast<uint32_t>(packed); }

__device__ __forceinline__ PieceMax larger(const PieceMax& a, const PieceMax& b) {
  return {a.first_of_largest > b.first_of_largest ? a.first_of_largest : b.first_of_largest,
          fmaxf(a.largest_number, b.largest_number)};
}

__device__ __forceinline__ PieceMax reduce_warp(PieceMax v) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2)
    v = larger(v, {__shfl_xor_sync(kAllLanes, v.first_of_largest, lanes),
                   __shfl_xor_sync(kAllLanes, v.largest_number, lanes)});
  return v;
}

inline constexpr float kMinusInfinity = -__builtin_inff();

// Of a whole row, by a warp; every lane gets it.
__device__ __forceinline__ PieceMax max_of_row(const RowMaxima& maxima, int64_t row) {
  PieceMax best{0, kMinusInfinity};
  for (int64_t i = threadIdx.x % 32; i < maxima.pieces_per_row; i += 32)
    best = larger(best, maxima.pieces[row * maxima.pieces_per_row + i]);
  return reduce_warp(best);
}

}  // namespace fk::cuda
