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

enum class PrologueKind : uint8_t { kNone, kRmsNorm, kHeadNorm, kShift, kPostNorm };

inline constexpr int kGroupRowPad = 32;  // elements between rows: reads of eight rows hit different banks

// Elements of shared memory, of 2 bytes: the rows; the tokens before them, weights of the norm and of the mixture, or
// the factors of heads; or the residual and the weights of three norms.
constexpr int64_t group_shared_elements(PrologueKind kind, int64_t tokens, int64_t length, int64_t heads) {
  const int64_t rows = tokens * (length + kGroupRowPad);
  if (kind == PrologueKind::kRmsNorm) return rows + length;
  if (kind == PrologueKind::kHeadNorm) return rows + 2 * tokens * heads;
  return kind == PrologueKind::kShift || kind == PrologueKind::kPostNorm ? rows + tokens * length + 3 * length : rows;
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
  __device__ __forceinline__ void copy_weights(PrologueKind kind, const PrologueCall<T>& p, const T* mixture,
                                               bool writes) {
    if (kind == PrologueKind::kHeadNorm) return;
    copy(extra_, kind == PrologueKind::kPostNorm && mixture != nullptr ? mixture : p.weight, length_);
    if (kind == PrologueKind::kPostNorm) {
      copy(extra_ + length_, p.post_weight, length_);
      if (writes && p.second_out != nullptr) copy(extra_ + 2 * length_, p.second_weight, length_);
    }
    if (kind == PrologueKind::kShift) {
      if (p.bias != nullptr) copy(extra_ + length_, p.bias, length_);
      copy(extra_ + 2 * length_, mixture, length_);
    }
    commit_copies();
  }

  // Each of the following calls then() when its first loads have been answered or are on their way: what is loaded
  // there does not delay them.
  template <class Then>
  __device__ __forceinline__ void take(const T* x, int64_t x_stride, Then&& then) {
    for (int t = 0; t < tokens_; ++t) copy(row(t), x + t * x_stride, length_);
    commit_copies();
    then();
    wait_copies<0>();
    __syncthreads();
  }

  template <class Then>
  __device__ __forceinline__ void rms_norm(const PrologueCall<T>& p, bool writes, Then&& then) {
    if (p.residual == nullptr && p.sum_out == nullptr) {
      // Copies do not wait for each other.
      for (int t = 0; t < tokens_; ++t) copy(row(t), p.x + t * p.x_stride, length_);
      commit_copies();
    } else {
      load_sums(p, writes && p.sum_out != nullptr);
    }
    then();
    wait_copies<0>();  // a thread reads only what it has copied itself
    float squares[kTokens] = {};
    each([&](int t, int i) {
      const Pack<T, N> v = load_pack<T, N>(row(t) + i);
#pragma unroll
      for (int k = 0; k < N; ++k) squares[t] = fmaf(to_float(v.at[k]), to_float(v.at[k]), squares[t]);
    });
    sum_over_block(squares, 0);
    each([&](int t, int i) {
      Pack<T, N> v = load_pack<T, N>(row(t) + i);
      const Pack<T, N> weight = load_pack<T, N>(extra_ + i);
      const float scale = 1.0f / sqrtf(squares[t] / static_cast<float>(length_) + p.eps);
#pragma unroll
      for (int k = 0; k < N; ++k)
        v.at[k] = from_float<T>(to_float(v.at[k]) * scale * (to_float(weight.at[k]) + p.weight_offset));
      store_pack<T, N>(row(t) + i, v);
      if (writes && p.normed_out != nullptr) store_pack<T, N>(p.normed_out + t * p.normed_stride + i, v);
    });
    __syncthreads();
  }

  template <class Then>
  __device__ __forceinline__ void post_norm(const PrologueCall<T>& p, bool writes, Then&& then) {
    T* residual = extra_ + 3 * length_;
    for (int t = 0; t < tokens_; ++t) copy(row(t), p.x + t * p.x_stride, length_);
    for (int t = 0; p.residual != nullptr && t < tokens_; ++t)
      copy(residual + t * length_, p.residual + t * p.residual_stride, length_);
    commit_copies();
    then();
    wait_copies<0>();  // a thread reads only what it has copied itself
    float squares[kTokens] = {};
    each([&](int t, int i) {
      const Pack<T, N> v = load_pack<T, N>(row(t) + i);
#pragma unroll
      for (int k = 0; k < N; ++k) squares[t] = fmaf(to_float(v.at[k]), to_float(v.at[k]), squares[t]);
    });
    sum_over_block(squares, 0);
    const float size = static_cast<float>(length_);
    float of_sum[kTokens] = {};
    each([&](int t, int i) {
      Pack<T, N> v = load_pack<T, N>(row(t) + i), added{};
      const Pack<T, N> weight = load_pack<T, N>(extra_ + length_ + i);
      if (p.residual != nullptr) added = load_pack<T, N>(residual + t * length_ + i);
      const float scale = 1.0f / sqrtf(squares[t] / size + p.eps);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        // Rounded where operators of their own would round.
        v.at[k] = from_float<T>(to_float(v.at[k]) * scale * to_float(weight.at[k]));
        if (p.residual != nullptr) v.at[k] = from_float<T>(to_float(v.at[k]) + to_float(added.at[k]));
        of_sum[t] = fmaf(to_float(v.at[k]), to_float(v.at[k]), of_sum[t]);
      }
      store_pack<T, N>(row(t) + i, v);
      if (writes && p.sum_out != nullptr) store_pack<T, N>(p.sum_out + t * p.sum_stride + i, v);
    });
    sum_over_block(of_sum, 1);
    each([&](int t, int i) {
      const Pack<T, N> v = load_pack<T, N>(row(t) + i);
      const float scale = 1.0f / sqrtf(of_sum[t] / size + p.eps);
      auto normed = [&](const T* weights) {
        const Pack<T, N> weight = load_pack<T, N>(weights + i);
        Pack<T, N> made;
#pragma unroll
        for (int k = 0; k < N; ++k) made.at[k] = from_float<T>(to_float(v.at[k]) * scale * to_float(weight.at[k]));
        return made;
      };
      store_pack<T, N>(row(t) + i, normed(extra_));
      if (writes && p.second_out != nullptr)
        store_pack<T, N>(p.second_out + t * p.second_stride + i, normed(extra_ + 2 * length_));
    });
    __syncthreads();
  }

  template <class Then>
  __device__ __forceinline__ void head_norm(const PrologueCall<T>& p, Then&& then) {
    // Eight threads add up the parts of a head.
    constexpr int kLanes = 8;
    auto* factors = reinterpret_cast<float*>(extra_);
    const int heads = tokens_ * p.heads, width = length_ / p.heads;
    for (int first = 0; first < heads; first += kThreads / kLanes) {  // the same number of rounds for all threads
      const int item = first + static_cast<int>(threadIdx.x) / kLanes;
      float sum = 0;
      if (item < heads) {
        const float* parts = p.squares + item / p.heads * p.squares_stride + item % p.heads * p.parts;
        for (int i = static_cast<int>(threadIdx.x) % kLanes; i < p.parts; i += kLanes) sum += parts[i];
      }
#pragma unroll
      for (int step = 1; step < kLanes; step *= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
      if (item < heads && threadIdx.x % kLanes == 0)
        factors[item] = 1.0f / sqrtf(sum / static_cast<float>(width) + p.eps);
    }
    __syncthreads();
    then();
    for (int i = static_cast<int>(threadIdx.x) * N; i < length_; i += kThreads * N) {
      const int head = i / width;
      for (int t = 0; t < tokens_; ++t) {
        const auto* from = reinterpret_cast<const float4*>(p.of_heads + t * p.of_heads_stride + i);
        const float4 low = from[0], high = from[1];
        const float factor = factors[t * p.heads + head];
        Pack<T, N> made;
        made.at[0] = from_float<T>(low.x * factor);
        made.at[1] = from_float<T>(low.y * factor);
        made.at[2] = from_float<T>(low.z * factor);
        made.at[3] = from_float<T>(low.w * factor);
        made.at[4] = from_float<T>(high.x * factor);
        made.at[5] = from_float<T>(high.y * factor);
        made.at[6] = from_float<T>(high.z * factor);
        made.at[7] = from_float<T>(high.w * factor);
        store_pack<T, N>(row(t) + i, made);
      }
    }
    __syncthreads();
  }

  template <class Then>
  __device__ __forceinline__ void shift(const PrologueCall<T>& p, bool writes, Then&& then) {
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
    then();
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
