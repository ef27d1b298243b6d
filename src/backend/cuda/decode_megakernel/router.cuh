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
  uint32_t keys[kMostExperts];  // of the logits
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

// The choice, by the load warps after the barrier of all blocks: each computes the logits of some of the experts, then
// each chooses the same of all of them.
template <class T, int kEach>  // experts of a lane
class ExpertChoice {
  static constexpr int kOwn = kEach / kFetchingWarps;  // whose logits a lane computes

 public:
  // `bias`: of the logits, or null; `keys_of_all`: shared by the load warps.
  static __device__ __forceinline__ void make(const TokenCall& call, int layer, const void* bias, uint32_t* keys_of_all,
                                              int* ids, float* weights) {
    const int thread = hidden_from_compiler(static_cast<int>(threadIdx.x) - kTokenThreads), lane = thread % 32;
    const TokenExperts& experts = call.experts;
    put_keys(call, layer, bias, thread, keys_of_all);
    meet(3, kFetchingThreads);
    uint32_t keys[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) keys[i] = lane + 32 * i < experts.count ? keys_of_all[lane + 32 * i] : 0;
    float sum = 0;
    if (!experts.renormalize && weights != nullptr) {
      const float first = logit(largest(keys));
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        if (keys[i] != 0) sum += expf(logit(keys[i]) - first);
    }
    sort(keys);
    uint32_t own = 0, first = 0;
#pragma unroll 1
    for (int j = 0; j < experts.chosen; ++j) {
      const uint32_t best = __reduce_max_sync(kAllLanes, keys[0]);
      if (j == 0) first = best;
      if (lane == j) own = best;
      const bool mine = keys[0] == best;
#pragma unroll
      for (int i = 0; i + 1 < kEach; ++i) keys[i] = mine ? keys[i + 1] : keys[i];
      if (mine) keys[kEach - 1] = 0;
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
  static __device__ __forceinline__ void put_keys(const TokenCall& call, int layer, const void* bias, int thread,
                                                  uint32_t* keys_of_all) {
    const TokenExperts& experts = call.experts;
    const int blocks = static_cast<int>(gridDim.x);
    const unsigned long long* sums = experts.logit_sums + layer * kLogitCopies * experts.count;
    // All loads before the first use of one.
    unsigned long long parts[kLogitCopies][kOwn] = {};
    float biases[kOwn] = {};
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int expert = thread + kFetchingThreads * i;
      if (expert >= experts.count) continue;
#pragma unroll
      for (int c = 0; c < kLogitCopies; ++c) parts[c][i] = __ldcg(sums + c * experts.count + expert);
      if (bias != nullptr) biases[i] = to_float(static_cast<const T*>(bias)[expert]);
    }
    float squares = 0;
#pragma unroll 5
    for (int b = thread % 32; b < blocks; b += 32) squares += __ldcg(experts.square_sums + layer * blocks + b);
    squares = reduce_warp<Sum>(squares);
    const float inverse = 1.0f / sqrtf(squares / static_cast<float>(call.hidden) + call.eps);
    // Logits are rounded as the product of a separate router would be, which makes some equal: of these the one with
    // the lower index comes first. A number and an index fit a key that is compared at once.
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int expert = thread + kFetchingThreads * i;
      unsigned long long all = 0;
#pragma unroll
      for (int c = 0; c < kLogitCopies; ++c) all += parts[c][i];
      const float term = static_cast<float>(static_cast<long long>(all)) * (1 / kLogitUnits);
      if (expert < experts.count) keys_of_all[expert] = key(from_float<T>(fmaf(term, inverse, biases[i])), expert);
    }
  }

  // The largest first.
  static __device__ __forceinline__ void sort(uint32_t (&keys)[kEach]) {
#pragma unroll
    for (int round = 0; round < kEach; ++round)
#pragma unroll
      for (int i = round % 2; i + 1 < kEach; i += 2) {
        const uint32_t low = min(keys[i], keys[i + 1]);
        keys[i] = max(keys[i], keys[i + 1]);
        keys[i + 1] = low;
      }
  }

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
__device__ __forceinline__ void choose_experts(const TokenCall& call, int layer, const void* bias, RouterMemory& memory,
                                               int* ids, float* weights) {
  if (kMost <= kFewExperts || call.experts.count <= kFewExperts)
    ExpertChoice<T, kFewExperts / 32>::make(call, layer, bias, memory.keys, ids, weights);
  else
    ExpertChoice<T, kMost / 32>::make(call, layer, bias, memory.keys, ids, weights);
}

}  // namespace fk::cuda
