// QueryRows: the 16 queries of a warp on tensor cores (mma.m16n8k16): scores of one tile of keys after the other, the
// online softmax over them, and the weighted values so far. A thread has rows group and group + 8, and of 8 columns the
// two from 2 quad on.
#pragma once

#include "backend/cuda/attention/running_softmax.cuh"
#include "backend/cuda/device/tile.cuh"

namespace fk::cuda {

// kKeys: of a tile. kValues: elements of the values that this warp has.
template <class T, int kKeys, int kValues>
struct QueryRows {
  float score[kKeys / 8][4];
  float mean[kValues / 8][4] = {};
  RunningSoftmax softmax;

  // first_row: of the queries' tile.
  template <int kHeadSize>
  __device__ __forceinline__ void multiply_keys(const Tile<kHeadSize>& queries, int first_row,
                                                const Tile<kHeadSize>& keys) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) score[n][i] = 0;
#pragma unroll
    for (int k = 0; k < kHeadSize / 16; ++k) {
      uint32_t a[4];
      // Matrices: rows 0-7 and 8-15 of the left half of 16 columns, then of the right half.
      load_matrices(a, queries.chunk(first_row + lane % 16, 2 * k + lane / 16));
#pragma unroll
      for (int n = 0; n < kKeys / 16; ++n) {
        uint32_t b[4];
        // Matrices: keys 0-7 left and right half, keys 8-15 left and right half.
        load_matrices(b, keys.chunk(n * 16 + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
        multiply_tile<T>(score[2 * n], a[0], a[1], a[2], a[3], b[0], b[1]);
        multiply_tile<T>(score[2 * n + 1], a[0], a[1], a[2], a[3], b[2], b[3]);
      }
    }
  }

  // change(score, row, key): the score with scale, cap and mask; row is 0 or 1, key counts from the first of the tile.
  template <class Change>
  __device__ __forceinline__ void change_scores(const Change& change) {
    const int quad = threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) score[n][i] = change(score[n][i], i / 2, n * 8 + 2 * quad + i % 2);
  }

  // Weights are powers of two of the scores. first_chunk: of this warp's elements.
  template <int kRow>
  __device__ __forceinline__ void add_values(const Tile<kRow>& values, int first_chunk) {
    const int lane = threadIdx.x % 32;
    float shrink[2];
    softmax.weigh(reinterpret_cast<float(&)[kKeys / 2]>(score), 1.0f, shrink);
#pragma unroll
    for (int n = 0; n < kValues / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) mean[n][i] *= shrink[i / 2];
        // The layout of a sum is the layout of the next product's left operand.
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      const float(&left)[4] = score[2 * k], (&right)[4] = score[2 * k + 1];
      const uint32_t a[4] = {pack_two<T>(left[0], left[1]), pack_two<T>(left[2], left[3]),
                             pack_two<T>(right[0], right[1]), pack_two<T>(right[2], right[3])};
#pragma unroll
      for (int n = 0; n < kValues / 16; ++n) {
        uint32_t b[4];
        // Transposed while loading: keys 0-7 and 8-15 of the left 8 elements, then of the right 8.
        load_matrices_transposed(b, values.chunk(k * 16 + lane % 16, first_chunk + 2 * n + lane / 16));
        multiply_tile<T>(mean[2 * n], a[0], a[1], a[2], a[3], b[0], b[1]);
        multiply_tile<T>(mean[2 * n + 1], a[0], a[1], a[2], a[3], b[2], b[3]);
      }
    }
  }

  // Writes elements 2 quad and 2 quad + 1 of every 8 of row r, times a factor; `out` is the thread's first element, and
  // only `elements` from the row's beginning exist.
  __device__ __forceinline__ void store(T* out, int r, float factor, int elements) const {
#pragma unroll
    for (int n = 0; n < kValues / 8; ++n)
      if (8 * n < elements)
        *reinterpret_cast<uint32_t*>(out + 8 * n) = pack_two<T>(mean[n][2 * r] * factor, mean[n][2 * r + 1] * factor);
  }
};

}  // namespace fk::cuda
