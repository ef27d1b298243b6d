// Sampling from a row of relative probabilities by one block: filters as a cut in the order of tokens, found by
// bisection, and the search for the sampled token.
//
// Sums are of integers (weights of 2^-40 of the largest token), so they do not depend on the order or the number of
// threads, and the search always finds a token.
#pragma once

#include "backend/cuda/device/reduce.cuh"

namespace fk::cuda::sampling {

inline constexpr int kThreads = 1024;
inline constexpr int kWarps = kThreads / 32;
inline constexpr unsigned kListed = 2048;  // tokens that are searched in shared memory rather than in the row

// floor(p * 2^40) of 0 <= p <= 1.
__device__ __forceinline__ uint64_t weight_of(float p) {
  const uint32_t bits = __float_as_uint(p);
  const uint32_t mantissa = (bits & 0x7fffffu) | 0x800000u;
  const int shift = static_cast<int>(bits >> 23) - (127 + 23 - 40);
  if (shift >= 0) return static_cast<uint64_t>(mantissa) << shift;
  return shift > -24 ? mantissa >> -shift : 0;
}

// Tokens in order: larger probabilities first, of equals the lower index. No two keys are equal.
__device__ __forceinline__ uint64_t key_of(float p, uint32_t index) {
  return static_cast<uint64_t>(__float_as_uint(p)) << 32 | static_cast<uint32_t>(~index);
}
__device__ __forceinline__ float probability_of(uint64_t key) {
  return __uint_as_float(static_cast<uint32_t>(key >> 32));
}
// Of the smallest probability with a weight, 2^-40, and above the largest, 1.
inline constexpr uint64_t kLeastKey = uint64_t{127 - 40} << (23 + 32);
inline constexpr uint64_t kAboveAllKeys = (uint64_t{127} << (23 + 32)) + (uint64_t{1} << 32);

struct Tally {
  uint64_t weight;
  uint32_t count;

  __device__ void add(float p) {
    weight += weight_of(p);
    ++count;
  }
};

struct Shared {
  Tally of_warps[kWarps];
  Tally of_block;
  uint64_t sums[kWarps];
  uint64_t list[kListed];
  unsigned listed;
};

// Called by all threads, which all get the result; may be called again at once.
__device__ __forceinline__ Tally add_up(Tally v, Shared& shared) {
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  auto over_warp = [](Tally t) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
      t.weight += __shfl_xor_sync(kAllLanes, t.weight, lanes);
      t.count += __shfl_xor_sync(kAllLanes, t.count, lanes);
    }
    return t;
  };
  v = over_warp(v);
  if (lane == 0) shared.of_warps[warp] = v;
  __syncthreads();
  if (warp == 0) {
    v = over_warp(shared.of_warps[lane]);
    if (lane == 0) shared.of_block = v;
  }
  __syncthreads();
  return shared.of_block;
}

// A row of probabilities relative to the largest; those too small for a weight are 0, and so are those up to the next
// multiple of four.
class Row {
 public:
  __device__ Row(const float* p, uint32_t width, Shared& shared) : p_(p), quads_((width + 3) / 4), shared_(shared) {}

  // All tokens whose key is at least `cut`, and possible.
  __device__ Tally tally_from(uint64_t cut) const {
    Tally tally{0, 0};
    each_key([&](float p, uint64_t key) {
      if (key >= cut) tally.add(p);
    });
    return add_up(tally, shared_);
  }

  // The largest cut that keeps `tokens` of what is kept from `cut` on, which are more.
  __device__ uint64_t cut_to_count(uint64_t cut, const Tally& kept, uint32_t tokens) const {
    return search(cut, kept, [=](const Tally& t) { return t.count >= tokens; });
  }
  // The largest cut that keeps a sum of `weight`, which is at least 1 and no more than what is kept from `cut` on.
  __device__ uint64_t cut_to_weight(uint64_t cut, const Tally& kept, uint64_t weight) const {
    return search(cut, kept, [=](const Tally& t) { return t.weight >= weight; });
  }

  // The token at which the running sum over kept tokens, in index order, passes (draw + 1/2) 2^-32 of their total; 0
  // where there is none.
  __device__ uint32_t walk(uint64_t cut, uint32_t draw) const {
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    uint32_t begin = 0, end = quads_ * 4;
    uint64_t left = 0;
    for (bool whole_row = true; whole_row || end - begin > 1; whole_row = false) {
      // Each warp sums up its share; the share in which the running sum passes is searched next.
      const uint32_t share = (end - begin + kWarps - 1) / kWarps;
      const uint32_t first = min(begin + warp * share, end), last = min(first + share, end);
      uint64_t sum = 0;
#pragma unroll 4
      for (uint32_t i = first + lane; i < last; i += 32) {
        const float p = p_[i];
        if (key_of(p, i) >= cut) sum += weight_of(p);
      }
#pragma unroll
      for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(kAllLanes, sum, lanes);
      if (lane == 0) shared_.sums[warp] = sum;
      __syncthreads();
      uint64_t up_to = shared_.sums[lane];
      const uint64_t own = up_to;
#pragma unroll
      for (int lanes = 1; lanes < 32; lanes *= 2) {
        const uint64_t before = __shfl_up_sync(kAllLanes, up_to, lanes);
        if (lane >= static_cast<unsigned>(lanes)) up_to += before;
      }
      if (whole_row) {
        const uint64_t total = __shfl_sync(kAllLanes, up_to, 31);
        if (total == 0) return 0;
        // floor(total * (2 draw + 1) / 2^33), which is less than total.
        const uint64_t odd = 2 * static_cast<uint64_t>(draw) + 1;
        left = __umul64hi(total, odd) << 31 | total * odd >> 33;
      }
      const int chosen = __ffs(static_cast<int>(__ballot_sync(kAllLanes, left < up_to))) - 1;
      left -= __shfl_sync(kAllLanes, up_to - own, chosen);
      begin = min(begin + static_cast<uint32_t>(chosen) * share, end);
      end = min(begin + share, end);
      __syncthreads();
    }
    return begin;
  }

 private:
  template <class Visit>
  __device__ void each_key(Visit&& visit) const {
#pragma unroll 4
    for (uint32_t q = threadIdx.x; q < quads_; q += kThreads) {
      const float4 p = reinterpret_cast<const float4*>(p_)[q];
      visit(p.x, key_of(p.x, 4 * q));
      visit(p.y, key_of(p.y, 4 * q + 1));
      visit(p.z, key_of(p.z, 4 * q + 2));
      visit(p.w, key_of(p.w, 4 * q + 3));
    }
  }

  // The largest cut for which enough(tally of what it keeps); `low` is enough, nothing is not.
  template <class Enough>
  __device__ uint64_t search(uint64_t low, Tally from_low, Enough enough) const {
    uint64_t high = kAboveAllKeys;
    Tally from_high{0, 0};
    auto narrow = [&](uint64_t middle, const Tally& from_middle) {
      if (enough(from_middle)) {
        low = middle;
        from_low = from_middle;
      } else {
        high = middle;
        from_high = from_middle;
      }
    };
    while (from_low.count - from_high.count > kListed) {
      const uint64_t middle = low + (high - low) / 2;
      narrow(middle, tally_from(middle));
    }
    // The remaining tokens are listed, so that the row need not be read again.
    if (threadIdx.x == 0) shared_.listed = 0;
    __syncthreads();
    each_key([&](float, uint64_t key) {
      if (key >= low && key < high) shared_.list[atomicAdd(&shared_.listed, 1u)] = key;
    });
    __syncthreads();
    const unsigned listed = shared_.listed;
    const Tally above_list = from_high;
    while (from_low.count - from_high.count > 1) {
      const uint64_t middle = low + (high - low) / 2;
      Tally tally{0, 0};
      for (unsigned i = threadIdx.x; i < listed; i += kThreads)
        if (shared_.list[i] >= middle) tally.add(probability_of(shared_.list[i]));
      tally = add_up(tally, shared_);
      narrow(middle, {tally.weight + above_list.weight, tally.count + above_list.count});
    }
    __syncthreads();  // before another search fills the list
    return low;
  }

  const float* p_;
  uint32_t quads_;
  Shared& shared_;
};

}  // namespace fk::cuda::sampling
