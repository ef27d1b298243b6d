// Prepares the input vector of a product in the shared memory of every block: reads a vector that other blocks have
// just written, with norm and residual sum.
//
// Every block repeats this small work, so that no extra kernel or barrier is needed. Rounds where the separate
// operators do.
#pragma once

#include <cstring>

#include "backend/cuda/decode_megakernel/block.cuh"
#include "backend/cuda/decode_megakernel/call.h"
#include "backend/cuda/decode_megakernel/expert_plan.h"
#include "backend/cuda/decode_megakernel/packed_plan.h"
#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/reduce.cuh"

namespace fk::cuda {

inline constexpr int kNormPacks = 2;  // packs of 8 elements per thread of a vector with a norm
inline constexpr int kMostNormed = kNormPacks * 8 * kTokenThreads;

template <class T>
using Pack8 = Pack<T, 8>;

// Bypasses L1, which is not coherent with writes of other multiprocessors.
template <class T>
__device__ __forceinline__ Pack8<T> load_shared_by_all(const T* from) {
  const uint4 raw = __ldcg(reinterpret_cast<const uint4*>(from));
  Pack8<T> pack;
  memcpy(&pack, &raw, 16);
  return pack;
}

template <class T>
struct Staging {
  const T* from;
  float scale = 1;              // of `from`, rounded: an embedding's
  const T* own_norm = nullptr;  // of `from` itself
  const T* residual = nullptr;  // added next
  T* residual_out = nullptr;    // gets the sum, by the first block
  const T* norm = nullptr;      // of the sum
};

// Sum over the block; `scratch` has kTokenWarps floats that must not be used otherwise until the next barrier.
__device__ __forceinline__ float sum_of_block(float v, float* scratch) {
  v = reduce_warp<Sum>(v);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  meet();
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kTokenWarps; ++i) sum += scratch[i];
  return sum;
}

// Eight elements of x from column `at` on; kPacked: in the order of packed_plan.h.
template <bool kPacked, class T>
__device__ __forceinline__ void store_x(T* x, int at, const Pack8<T>& v) {
  if constexpr (kPacked) {
#pragma unroll
    for (int i = 0; i < 8; ++i) x[packed_column(at + i)] = v.at[i];
  } else {
    *reinterpret_cast<Pack8<T>*>(x + at) = v;
  }
}

// How eight elements from column `at` on, by all lanes of a warp, are placed in x.
struct PlainPlace {
  template <bool kPacked, class T>
  __device__ __forceinline__ void put(T* x, int at, const Pack8<T>& v) const {
    store_x<kPacked>(x, at, v);
  }
};

// A vector of call.hidden elements, kept in registers between two norms.
template <class T>
class NormedVector {
 public:
  // Weights do not depend on other blocks, so they are loaded before the wait.
  __device__ __forceinline__ NormedVector(const TokenCall& call, const Staging<T>& s) : call_(call), s_(s) {
#pragma unroll
    for (int j = 0; j < kNormPacks; ++j) {
      if (at(j) >= call.hidden) continue;
      weight_[j] = load(s.norm + at(j));
      if (s.own_norm != nullptr) own_weight_[j] = load(s.own_norm + at(j));
    }
  }

  // The vector in `x`, zeros behind it up to a whole step; scratch: 2 * kTokenWarps floats.
  template <bool kPacked, class Place>
  __device__ __forceinline__ void stage(T* x, float* scratch, const Place& place) {
    Pack8<T> v[kNormPacks] = {}, residual[kNormPacks] = {};
#pragma unroll
    for (int j = 0; j < kNormPacks; ++j) {
      if (at(j) >= call_.hidden) continue;
      v[j] = load_shared_by_all(s_.from + at(j));
      if (s_.residual != nullptr) residual[j] = load_shared_by_all(s_.residual + at(j));
    }
    if (s_.scale != 1) scale(v, [&](int, int) { return s_.scale; });
    if (s_.own_norm != nullptr) norm(v, own_weight_, scratch);
    if (s_.residual != nullptr)
#pragma unroll
      for (int j = 0; j < kNormPacks; ++j)
#pragma unroll
        for (int i = 0; i < 8; ++i) v[j].at[i] = from_float<T>(to_float(v[j].at[i]) + to_float(residual[j].at[i]));
    if (s_.residual_out != nullptr && blockIdx.x == 0)
#pragma unroll
      for (int j = 0; j < kNormPacks; ++j)
        if (at(j) < call_.hidden) *reinterpret_cast<Pack8<T>*>(s_.residual_out + at(j)) = v[j];
    norm(v, weight_, scratch + kTokenWarps);
    const int padded = (call_.hidden + kStep - 1) / kStep * kStep;
#pragma unroll
    for (int j = 0; j < kNormPacks; ++j) {
      if (at(j) >= call_.hidden) v[j] = {};
      if (at(j) >= padded) continue;  // the same for all lanes of a warp
      place.template put<kPacked>(x, at(j), v[j]);
    }
    meet();
  }

 private:
  static __device__ __forceinline__ int at(int j) { return static_cast<int>(threadIdx.x + j * kTokenThreads) * 8; }
  static __device__ __forceinline__ Pack8<T> load(const T* from) { return *reinterpret_cast<const Pack8<T>*>(from); }

  template <class Factor>
  __device__ __forceinline__ void scale(Pack8<T> (&v)[kNormPacks], const Factor& factor) const {
#pragma unroll
    for (int j = 0; j < kNormPacks; ++j)
#pragma unroll
      for (int i = 0; i < 8; ++i) v[j].at[i] = from_float<T>(to_float(v[j].at[i]) * factor(j, i));
  }

  __device__ __forceinline__ void norm(Pack8<T> (&v)[kNormPacks], const Pack8<T> (&weight)[kNormPacks],
                                       float* scratch) const {
    float squares = 0;
#pragma unroll
    for (int j = 0; j < kNormPacks; ++j)
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (at(j) < call_.hidden) squares = fmaf(to_float(v[j].at[i]), to_float(v[j].at[i]), squares);
    squares = sum_of_block(squares, scratch);
    const float inverse = 1.0f / sqrtf(squares / static_cast<float>(call_.hidden) + call_.eps);
#pragma unroll
    for (int j = 0; j < kNormPacks; ++j)
#pragma unroll
      for (int i = 0; i < 8; ++i)
        v[j].at[i] = from_float<T>(to_float(v[j].at[i]) * inverse * (to_float(weight[j].at[i]) + call_.norm_offset));
  }

  const TokenCall& call_;
  const Staging<T> s_;
  Pack8<T> weight_[kNormPacks] = {}, own_weight_[kNormPacks] = {};
};

// A vector as it is.
template <class T, class Place>
__device__ __forceinline__ void stage_plain(const T* from, int length, T* x, const Place& place) {
  const int padded = (length + kStep - 1) / kStep * kStep;
  for (int at = static_cast<int>(threadIdx.x) * 8; at < padded; at += 8 * kTokenThreads) {
    Pack8<T> v = {};
    if (at < length) v = load_shared_by_all(from + at);
    place.template put<false>(x, at, v);
  }
  meet();
}

// The gated features of the chosen experts, each with zeros up to a whole step (expert_plan.h).
template <bool kPacked, class T>
__device__ __forceinline__ void stage_chosen(const TokenCall& call, const T* from, T* x) {
  const int size = call.experts.size, padded = padded_expert(size);
  for (int at = static_cast<int>(threadIdx.x) * 8; at < call.shapes[kDown].length; at += 8 * kTokenThreads) {
    const int expert = at / padded, feature = at - expert * padded;
    Pack8<T> v = {};
    if (feature < size) v = load_shared_by_all(from + expert * size + feature);
    store_x<kPacked>(x, at, v);
  }
  meet();
}

}  // namespace fk::cuda
