// The residual stream of a model without attention, normed by every block for itself: eight elements for each thread.
#pragma once

#include "backend/cuda/decode_megakernel/block.cuh"
#include "backend/cuda/decode_megakernel/staging.cuh"

namespace fk::cuda {

inline constexpr int kMostStream = 8 * kTokenThreads;

constexpr int whole_steps(int length) { return (length + kStep - 1) / kStep * kStep; }

// The sum is rounded, as a separate operator would store it.
template <class T>
__device__ __forceinline__ void add_pack(Pack8<T>& v, const Pack8<T>& added) {
#pragma unroll
  for (int i = 0; i < 8; ++i) v.at[i] = from_float<T>(to_float(v.at[i]) + to_float(added.at[i]));
}

// The stream `v`, normed, as the input of a product, zeros behind it up to a whole step. Threads behind its end have
// zeros. scratch: as of sum_of_block.
template <class T>
__device__ __forceinline__ void stage_normed(Pack8<T> v, const Pack8<T>& weights, int hidden, float eps, float* scratch,
                                             T* x) {
  const int at = static_cast<int>(threadIdx.x) * 8;
  float squares = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) squares = fmaf(to_float(v.at[i]), to_float(v.at[i]), squares);
  squares = sum_of_block(squares, scratch);
  const float scale = 1.0f / sqrtf(squares / static_cast<float>(hidden) + eps);
#pragma unroll
  for (int i = 0; i < 8; ++i) v.at[i] = from_float<T>(to_float(v.at[i]) * scale * to_float(weights.at[i]));
  if (at < whole_steps(hidden)) *reinterpret_cast<Pack8<T>*>(x + at) = v;
  meet();
}

}  // namespace fk::cuda
