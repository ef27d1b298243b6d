// The arguments of stream_group.cu's kernels.
#pragma once

#include "backend/cuda/device/element.cuh"
#include "backend/cuda/matmul/stream_group.h"

namespace fk::cuda {

inline constexpr int kMostGroupTokens = 8;

template <class T>
struct GroupProductCall {
  const T *x, *weight, *bias, *mixture;
  T* out;
  int64_t x_stride, out_stride;
  int features;  // columns of out
  int first_block;
  GroupActivation activation;
  bool wide;  // out is f32

  __device__ __forceinline__ bool gated() const {
    return activation == GroupActivation::kSiluAndMul || activation == GroupActivation::kGeluTanhAndMul;
  }
};

struct TokenPlace {
  int slot;          // of its sequence's state; negative: none
  bool first, last;  // of the new tokens of its sequence
};

// Tokens of decoding sequences come first.
template <class T>
struct LastTokensCall {
  T* state;
  int64_t stride;
  const int32_t *decode_slots, *prefill_slots, *prefill_starts;
  int decoding, prefilling;

  __device__ __forceinline__ TokenPlace place(int token) const {
    if (token < decoding) return {decode_slots[token], true, true};
    const int t = token - decoding;
    for (int s = 0; s < prefilling; ++s)
      if (t < prefill_starts[s + 1]) return {prefill_slots[s], t == prefill_starts[s], t + 1 == prefill_starts[s + 1]};
    return {-1, true, false};
  }
};

template <class T>
struct PrologueCall {
  const T *x, *residual, *pre_weight, *pre_bias, *weight, *bias;
  T *sum_out, *now;
  int64_t x_stride, residual_stride, sum_stride, now_stride;
  const float *of_heads, *squares;  // of HeadNormRows
  int64_t of_heads_stride, squares_stride;
  int heads, parts;
  const T *post_weight, *second_weight;  // of PostNormRows
  T* second_out;
  int64_t second_stride;
  T* normed_out;  // of RmsNormRows
  int64_t normed_stride;
  float eps, weight_offset;
  LastTokensCall<T> before;
};

template <class T>
struct GroupCall {
  GroupProductCall<T> products[kMostGroupedProducts];
  int count, tokens, length;
  int block_rows;  // of a matrix, for each block; even
  bool early;      // two rounds of the matrix are loaded before anything else, else one
  bool staged;     // x is copied to shared memory; of groups without a prologue
  PrologueCall<T> prologue;
  const T* stored;
  int64_t stored_stride;
  int stored_width;  // of a state, which need not be that of the matrices
  LastTokensCall<T> store;
  int64_t* cleared;
  int cleared_words;
};

}  // namespace fk::cuda
