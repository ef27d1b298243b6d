// What a block of stream_group.cu computes before its product: the rows it multiplies, in shared memory.
//
// A thread has the same channels of all rows in every step, so blocks wait only for sums. What does not depend on the
// previous kernel is copied before the wait.
#pragma once

#include <type_traits>

#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/device/tile.cuh"
#include "backend/cuda/l1/packs.cuh"
#include "backend/cuda/matmul/group_call.cuh"

namespace fk::cuda {

enum class PrologueKind : uint8_t { kNone, kRmsNorm, kHeadNorm, kShift };

inline constexpr int kHeadNormPacks = 2;  // of a lane, so heads have at most 512 channels
inline constexpr int kGroupRowPad = 32;   // elements between rows: reads of eight rows hit different banks

// Elements of shared memory: the rows, the tokens before them, weights of the norm and of the mixture.
constexpr int64_t group_shared_elements(PrologueKind kind, int64_t tokens, int64_t length, int64_t width) {
  const int64_t rows = tokens * (length + kGroupRowPad);
  if (kind == PrologueKind::kRmsNorm) return rows + length;
  if (kind == PrologueKind::kHeadNorm) return rows + width;
  return kind == PrologueKind::kShift ? rows + tokens * length + 3 * length : 0;
}

// kTokens: at most; loops over fewer take fewer registers.
template <class T, int kThreads, int kTokens>
class GroupRows {
 public:
  static constexpr int N = kPackElements<T>;
  static constexpr int kWarps = kThreads / 32;
  using Scratch = float[2][kWarps][kTokens];

  __device__ GroupRows(T* shared, Scratch& scratch, int tokens, int length)
      : rows_(shared),
        extra_(shared + tokens * (length + kGroupRowPad)),
        scratch_(scratch),
        tokens_(tokens),
        length_(length) {}

  __device__ __forceinline__ T* row(int t) const { return rows_ + t * (length_ + kGroupRowPad); }

  // Before the wait.
  __device__ __forceinline__ void copy_weights(PrologueKind kind, const PrologueCall<T>& p, const T* mixture) {
    if (kind == PrologueKind::kHeadNorm) {
      copy(extra_, p.weight, p.width);
    } else {
      copy(extra_, p.weight, length_);
      if (kind == PrologueKind::kShift) {
        if (p.bias != nullptr) copy(extra_ + length_, p.bias, length_);
        copy(extra_ + 2 * length_, mixture, length_);
      }
    }
    commit_copies();
  }

  __device__ __forceinline__ void rms_norm(const PrologueCall<T>& p, bool writes) {
    load_sums(p, writes && p.sum_out != nullptr);
    float squares[kTokens] = {};
    each([&](int t, int i) {
      const Pack<T, N> v = load_pack<T, N>(row(t) + i);
#pragma unroll
      for (int k = 0; k < N; ++k) squares[t] = fmaf(to_float(v.at[k]), to_float(v.at[k]), squares[t]);
    });
    sum_over_block(squares, 0);
    wait_copies<0>();
    each([&](int t, int i) {
      Pack<T, N> v = load_pack<T, N>(row(t) + i);
      const Pack<T, N> weight = load_pack<T, N>(extra_ + i);
      const float scale = 1.0f / sqrtf(squares[t] / static_cast<float>(length_) + p.eps);
#pragma unroll
      for (int k = 0; k < N; ++k) v.at[k] = from_float<T>(to_float(v.at[k]) * scale * to_float(weight.at[k]));
      store_pack<T, N>(row(t) + i, v);
    });
    __syncthreads();
  }

  // A warp for each head of a token; a lane keeps its part of it.
  __device__ __forceinline__ void head_norm(const PrologueCall<T>& p) {
    constexpr int kPacks = kHeadNormPacks;
    const int lane = threadIdx.x % 32, heads = length_ / p.width;
    wait_copies<0>();
    __syncthreads();  // the weight was copied by other warps, too
    for (int item = threadIdx.x / 32; item < tokens_ * heads; item += kWarps) {
      const int t = item / heads, first = item % heads * p.width;
      const T *x = p.x + t * p.x_stride + first, *gate = p.gate + t * p.gate_stride + first;
      Pack<T, N> v[kPacks], gates[kPacks];
      float squares = 0;
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        const int i = (lane + 32 * j) * N;
        if (i >= p.width) continue;
        v[j] = load_pack<T, N>(x + i);
        if (p.gate != nullptr) gates[j] = load_pack<T, N>(gate + i);
#pragma unroll
        for (int k = 0; k < N; ++k) squares = fmaf(to_float(v[j].at[k]), to_float(v[j].at[k]), squares);
      }
      const float scale = 1.0f / sqrtf(reduce_warp<Sum>(squares) / static_cast<float>(p.width) + p.eps);
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        const int i = (lane + 32 * j) * N;
        if (i >= p.width) continue;
        const Pack<T, N> weight = load_pack<T, N>(extra_ + i);
#pragma unroll
        for (int k = 0; k < N; ++k) {
          float y = to_float(v[j].at[k]) * scale * to_float(weight.at[k]);
          if (p.gate != nullptr) {
            const float g = to_float(gates[j].at[k]);
            y *= g / (1.0f + expf(-g));
          }
          v[j].at[k] = from_float<T>(y);
        }
        store_pack<T, N>(row(t) + first + i, v[j]);
      }
    }
    __syncthreads();
  }

  __device__ __forceinline__ void shift(const PrologueCall<T>& p, bool writes) {
    const bool pre = p.pre_weight != nullptr;
    TokenPlace places[kTokens];
#pragma unroll
    for (int t = 0; t < kTokens; ++t)
      if (t < tokens_) places[t] = p.before.place(t);
    load_sums(p, writes && p.sum_out != nullptr && !pre);
    T* before = extra_ + 3 * length_;
    unsigned continues = 0;  // tokens whose sequence has a token before them in this batch
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      if (t >= tokens_) continue;
      if (!places[t].first) continues |= 1u << t;
      const bool stored = places[t].first && places[t].slot >= 0;
      const T* from = p.before.state + (stored ? places[t].slot * p.before.stride : 0);
      for (int i = static_cast<int>(threadIdx.x) * N; i < length_; i += kThreads * N)
        copy_async(shared_address(before + t * length_ + i), from + i, stored);
    }
    commit_copies();
    if (pre) {
      layer_norm(p.pre_weight, p.pre_bias, p.eps);
      if (writes && p.sum_out != nullptr)
        each([&](int t, int i) { store_pack<T, N>(p.sum_out + t * p.sum_stride + i, load_pack<T, N>(row(t) + i)); });
    }
    wait_copies<1>();
    layer_norm(extra_, p.bias != nullptr ? extra_ + length_ : nullptr, p.eps);
    if (writes)
      each([&](int t, int i) { store_pack<T, N>(p.now + t * p.now_stride + i, load_pack<T, N>(row(t) + i)); });
    wait_copies<0>();
    // Backwards, so that a row is replaced after the next one has read it.
    for (int i = static_cast<int>(threadIdx.x) * N; i < length_; i += kThreads * N) {
      const Pack<T, N> weight = load_pack<T, N>(extra_ + 2 * length_ + i);
      for (int t = tokens_ - 1; t >= 0; --t) {
        Pack<T, N> now = load_pack<T, N>(row(t) + i);
        const Pack<T, N> earlier =
            load_pack<T, N>((continues >> t & 1u) != 0 ? row(t - 1) + i : before + t * length_ + i);
#pragma unroll
        for (int k = 0; k < N; ++k) {
          // The change is rounded, as token_shift stores it.
          const float change = to_float(from_float<T>(to_float(earlier.at[k]) - to_float(now.at[k])));
          now.at[k] = from_float<T>(fmaf(change, to_float(weight.at[k]), to_float(now.at[k])));
        }
        store_pack<T, N>(row(t) + i, now);
      }
    }
    __syncthreads();
  }

 private:
  static __device__ __forceinline__ uint32_t shared_address(const T* at) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(at));
  }

  __device__ __forceinline__ void copy(T* to, const T* from, int count) {
    for (int i = static_cast<int>(threadIdx.x) * N; i < count; i += kThreads * N)
      copy_async(shared_address(to + i), from + i, true);
  }

  // body(token, channel) for the packs of this thread; tokens are a compile-time index, for arrays in registers.
  template <class Body>
  __device__ __forceinline__ void each(Body&& body) {
    for (int i = static_cast<int>(threadIdx.x) * N; i < length_; i += kThreads * N) {
#pragma unroll
      for (int t = 0; t < kTokens; ++t)
        if (t < tokens_) body(t, i);
    }
  }

  // The sum is rounded to T before it is normed, as the next layer reads it.
  __device__ __forceinline__ void load_sums(const PrologueCall<T>& p, bool writes) {
    each([&](int t, int i) {
      Pack<T, N> v = load_pack<T, N>(p.x + t * p.x_stride + i);
      if (p.residual != nullptr) {
        const Pack<T, N> added = load_pack<T, N>(p.residual + t * p.residual_stride + i);
#pragma unroll
        for (int k = 0; k < N; ++k) v.at[k] = from_float<T>(to_float(v.at[k]) + to_float(added.at[k]));
      }
      store_pack<T, N>(row(t) + i, v);
      if (writes) store_pack<T, N>(p.sum_out + t * p.sum_stride + i, v);
    });
  }

  // Every thread gets the sums over all threads. Uses of the same half of the scratch must have a barrier in between.
  __device__ __forceinline__ void sum_over_block(float (&part)[kTokens], int half) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      if (t >= tokens_) continue;
      part[t] = reduce_warp<Sum>(part[t]);
      if (lane == 0) scratch_[half][warp][t] = part[t];
    }
    __syncthreads();
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      if (t >= tokens_) continue;
      part[t] = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) part[t] += scratch_[half][w][t];
    }
  }

  __device__ __forceinline__ void layer_norm(const T* weight, const T* bias, float eps) {
    float mean[kTokens] = {}, squares[kTokens] = {};
    each([&](int t, int i) {
      const Pack<T, N> v = load_pack<T, N>(row(t) + i);
#pragma unroll
      for (int k = 0; k < N; ++k) mean[t] += to_float(v.at[k]);
    });
    sum_over_block(mean, 0);
    const float size = static_cast<float>(length_);
#pragma unroll
    for (int t = 0; t < kTokens; ++t) mean[t] /= size;
    each([&](int t, int i) {
      const Pack<T, N> v = load_pack<T, N>(row(t) + i);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float away = to_float(v.at[k]) - mean[t];
        squares[t] = fmaf(away, away, squares[t]);
      }
    });
    sum_over_block(squares, 1);
    each([&](int t, int i) {
      Pack<T, N> v = load_pack<T, N>(row(t) + i);
      const Pack<T, N> w = load_pack<T, N>(weight + i);
      Pack<T, N> b{};
      if (bias != nullptr) b = load_pack<T, N>(bias + i);
      const float scale = 1.0f / sqrtf(squares[t] / size + eps);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float normed = (to_float(v.at[k]) - mean[t]) * scale * to_float(w.at[k]);
        v.at[k] = from_float<T>(bias != nullptr ? normed + to_float(b.at[k]) : normed);
      }
      store_pack<T, N>(row(t) + i, v);
    });
  }

  T* rows_;
  T* extra_;  // behind the rows: weights, then tokens before them
  Scratch& scratch_;
  int tokens_, length_;
};

}  // namespace fk::cuda
