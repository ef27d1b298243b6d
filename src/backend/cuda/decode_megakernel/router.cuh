// The router inside the token kernel: which experts a layer uses, and their weights.
//
// A product of its own would need a barrier of all blocks more, while no weights can be loaded. But a logit is a sum
// over the elements of the residual stream, each times its weight in the norm and in the router, and divided by the
// root of the mean square, which is a factor of the whole sum. So every block adds the terms of the elements that it
// has just computed in the product before, and after the barrier that follows all blocks know the logits.
//
// Sums are integers, because the sum of floats would depend on the order in which blocks add.
#pragma once

#include "backend/cuda/decode_megakernel/block.cuh"
#include "backend/cuda/decode_megakernel/expert_plan.h"
#include "backend/cuda/decode_megakernel/staging.cuh"
#include "backend/cuda/device/tile.cuh"

namespace fk::cuda {

inline constexpr int kMostRouterPairs = 32;  // of elements that a block computes
inline constexpr int kMostQkvPairs = 64;     // the same of queries, keys and values, where these have a bias
inline constexpr int kMostDownItems = 256;   // of a block (packed_plan.h)

inline constexpr int kFewExperts = 128;  // of a layer, for which the choice is faster

// A logit before the division, times this: terms as large as 5e8 fit, and the error is far below that of an element.
inline constexpr float kLogitUnits = 17179869184.0f;  // 2^34

struct RouterMemory {
  // Of the block's elements of the residual stream.
  float residual[2 * kMostRouterPairs];
  float norm[2 * kMostRouterPairs];
  float normed[2 * kMostRouterPairs];  // not yet divided by the root of the mean square
  float squares[2 * kMostRouterPairs];
  // Of the chosen experts.
  float weights[kMostChosen];
  int ids[kFetchingWarps][kMostChosen];  // each load warp has its own
};

// The same where experts are packed.
struct PackedRouterMemory : RouterMemory {
  alignas(4) __nv_bfloat16 qkv_bias[2 * kMostQkvPairs];  // of the block's elements
  float out_bias[2 * kMostRouterPairs];
  float2 down[kMostDownItems];  // two rows of the down product of a chosen expert
};

// The part of the computing threads.
template <class T>
class RouterTerms {
 public:
  // `matrix`: this block's columns of the router, `router_stride` words a row.
  __device__ __forceinline__ RouterTerms(const TokenCall& call, RouterMemory& memory, uint32_t* matrix)
      : call_(call),
        memory_(memory),
        matrix_(matrix),
        stride_(router_stride(call.hidden, static_cast<int>(gridDim.x))) {}

  // Before the first barrier of all blocks.
  __device__ __forceinline__ void clear() const {
    const int all = call_.layers * kLogitCopies * call_.experts.count;
    for (int i = static_cast<int>(blockIdx.x * kTokenThreads + threadIdx.x); i < all;
         i += static_cast<int>(gridDim.x) * kTokenThreads)
      __stcg(call_.experts.logit_sums + i, 0ull);
  }

  // Starts copies of a layer's router; add() waits for them.
  __device__ __forceinline__ void fetch_matrix(const void* router, PairRange pairs) const {
    const int words = pairs.count();
    for (int i = static_cast<int>(threadIdx.x); i < call_.experts.count * words; i += kTokenThreads) {
      const int expert = i / words, word = i - expert * words;
      const T* from = static_cast<const T*>(router) + static_cast<int64_t>(expert) * call_.hidden;
      const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(matrix_ + expert * stride_ + word));
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from + 2 * (pairs.begin + word))
                   : "memory");
    }
  }

  // The residual stream before this layer's attention, and the norm after it; `biases`: where the bias of the product
  // after attention goes, or null.
  __device__ __forceinline__ void fetch_stream(const void* residual, const void* norm, PairRange pairs,
                                               const void* bias = nullptr, float* biases = nullptr) const {
    const int i = static_cast<int>(threadIdx.x);
    if (i >= 2 * pairs.count()) return;
    const int feature = 2 * pairs.begin + i;
    if (biases != nullptr) biases[i] = bias != nullptr ? to_float(static_cast<const T*>(bias)[feature]) : 0.0f;
    const unsigned short raw = __ldcg(static_cast<const unsigned short*>(residual) + feature);
    T value;
    memcpy(&value, &raw, sizeof value);
    memory_.residual[i] = to_float(value);
    memory_.norm[i] = to_float(static_cast<const T*>(norm)[feature]) + call_.norm_offset;
  }

  // The output of the attention block, element i of this block's.
  __device__ __forceinline__ void put(int i, T value) const {
    const float sum = to_float(from_float<T>(to_float(value) + memory_.residual[i]));
    memory_.normed[i] = sum * memory_.norm[i];
    memory_.squares[i] = sum * sum;
  }

  // After all puts: adds this block's terms to the sums of all.
  __device__ __forceinline__ void add(int layer, PairRange pairs) const {
    asm volatile("cp.async.wait_all;" ::: "memory");
    meet();
    const int words = pairs.count(), copy = static_cast<int>(blockIdx.x) % kLogitCopies;
    unsigned long long* sums = call_.experts.logit_sums + (layer * kLogitCopies + copy) * call_.experts.count;
    if (threadIdx.x < kTokenThreads - 32) {
      for (int expert = static_cast<int>(threadIdx.x); words > 0 && expert < call_.experts.count;
           expert += kTokenThreads - 32) {
        const uint32_t* row = matrix_ + expert * stride_;
        float sum = 0;
#pragma unroll 4
        for (int w = 0; w < words; ++w) {
          Pack<T, 2> both;
          memcpy(&both, row + w, sizeof both);
          sum = fmaf(to_float(both.at[0]), memory_.normed[2 * w], sum);
          sum = fmaf(to_float(both.at[1]), memory_.normed[2 * w + 1], sum);
        }
        atomicAdd(sums + expert, static_cast<unsigned long long>(__float2ll_rn(sum * kLogitUnits)));
      }
    } else {
      const int lane = static_cast<int>(threadIdx.x % 32);
      float squares = 0;
      for (int i = lane; i < 2 * words; i += 32) squares += memory_.squares[i];
      squares = reduce_warp<Sum>(squares);
      if (lane == 0) __stcg(call_.experts.square_sums + layer * static_cast<int>(gridDim.x) + blockIdx.x, squares);
    }
  }

 private:
  const TokenCall& call_;
  RouterMemory& memory_;
  uint32_t* matrix_;
  const int stride_;
};

// The choice, by a whole warp after the barrier of all blocks; all warps of all blocks choose the same.
template <class T, int kEach>  // experts of a lane
class ExpertChoice {
 public:
  // `bias`: of the logits, or null.
  static __device__ __forceinline__ void make(const TokenCall& call, int layer, const void* bias, int* ids,
                                              float* weights) {
    const int lane = hidden_from_compiler(static_cast<int>(threadIdx.x % 32)), blocks = static_cast<int>(gridDim.x);
    const TokenExperts& experts = call.experts;
    const unsigned long long* sums = experts.logit_sums + layer * kLogitCopies * experts.count;
    // All loads before the first use of one, where there are enough registers.
    constexpr int kAtOnce = kEach > 4 ? 1 : kLogitCopies;
    unsigned long long parts[kEach] = {};
#pragma unroll kAtOnce
    for (int c = 0; c < kLogitCopies; ++c)
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        parts[i] += lane + 32 * i < experts.count ? __ldcg(sums + c * experts.count + lane + 32 * i) : 0;
    float biases[kEach] = {};
    if (bias != nullptr) {
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        if (lane + 32 * i < experts.count) biases[i] = to_float(static_cast<const T*>(bias)[lane + 32 * i]);
    }
    float squares = 0;
#pragma unroll 4
    for (int b = lane; b < blocks; b += 32) squares += __ldcg(experts.square_sums + layer * blocks + b);
    float terms[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) terms[i] = static_cast<float>(static_cast<long long>(parts[i])) * (1 / kLogitUnits);
    squares = reduce_warp<Sum>(squares);
    const float inverse = 1.0f / sqrtf(squares / static_cast<float>(call.hidden) + call.eps);
    // Logits are rounded as the product of a separate router would be, which makes some equal: of these the one with
    // the lower index comes first. A number and an index fit a key that is compared at once.
    uint32_t keys[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      keys[i] =
          lane + 32 * i < experts.count ? key(from_float<T>(fmaf(terms[i], inverse, biases[i])), lane + 32 * i) : 0;
    const uint32_t first = largest(keys);
    float sum = 0;
    if (!experts.renormalize && weights != nullptr) {
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        if (keys[i] != 0) sum += expf(logit(keys[i]) - logit(first));
    }
    uint32_t own = 0;
#pragma unroll 1
    for (int j = 0; j < experts.chosen; ++j) {
      const uint32_t best = largest(keys);
      if (lane == j) own = best;
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        if (keys[i] == best) keys[i] = 0;
    }
    if (own != 0) ids[lane] = static_cast<int>(0xffff - (own & 0xffff));
    if (weights != nullptr) {
      const float relative = own != 0 ? expf(logit(own) - logit(first)) : 0;
      if (experts.renormalize) sum = relative;
      sum = reduce_warp<Sum>(sum);
      if (own != 0) weights[lane] = relative / sum;
    }
    __syncwarp();
  }

 private:
  // Orders as the logit does; never zero.
  static __device__ __forceinline__ uint32_t key(T rounded, int expert) {
    static_assert(sizeof(T) == 2);
    unsigned short bits;
    memcpy(&bits, &rounded, sizeof bits);
    if (bits == 0x8000) bits = 0;  // minus zero
    const uint32_t order = (bits & 0x8000) != 0 ? 0xffffu ^ bits : 0x8000u | bits;
    return order << 16 | static_cast<uint32_t>(0xffff - expert);
  }
  static __device__ __forceinline__ float logit(uint32_t key) {
    const uint32_t order = key >> 16;
    const auto bits = static_cast<unsigned short>((order & 0x8000) != 0 ? order ^ 0x8000u : order ^ 0xffffu);
    T rounded;
    memcpy(&rounded, &bits, sizeof rounded);
    return to_float(rounded);
  }
  static __device__ __forceinline__ uint32_t largest(const uint32_t (&keys)[kEach]) {
    uint32_t best = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) best = max(best, keys[i]);
    return __reduce_max_sync(kAllLanes, best);
  }
};

// Writes the chosen experts of a layer, the most probable first, and their weights where these are wanted.
template <class T, int kMost>
__device__ __forceinline__ void choose_experts(const TokenCall& call, int layer, const void* bias, int* ids,
                                               float* weights) {
  if (kMost <= kFewExperts || call.experts.count <= kFewExperts)
    ExpertChoice<T, kFewExperts / 32>::make(call, layer, bias, ids, weights);
  else
    ExpertChoice<T, kMost / 32>::make(call, layer, bias, ids, weights);
}

}  // namespace fk::cuda
