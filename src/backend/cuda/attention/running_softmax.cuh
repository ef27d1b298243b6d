// RunningSoftmax: the online softmax state of a thread's two rows: the largest score and the sum of weights so far.
// Four neighbouring lanes share a row.
#pragma once

#include "backend/cuda/device/reduce.cuh"

namespace fk::cuda {

inline constexpr float kLog2E = 1.4426950408889634f;

// One instruction, with an error of about two ulp; subnormal results become zero.
__device__ __forceinline__ float exp2_quick(float v) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(v));
  return result;
}

// Absolute error about 2^-22, which is enough for a soft cap; the relative error of small results is larger.
__device__ __forceinline__ float tanh_quick(float v) { return 1 - __fdividef(2.0f, exp2_quick(v * (2 * kLog2E)) + 1); }

struct RunningSoftmax {
  float largest[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};

  // scores[4 n + i] belongs to row i / 2. Turns scores into weights 2^(scale (score - largest)), scale > 0, and returns
  // in `shrink` the factor for everything summed so far.
  template <int N>
  __device__ __forceinline__ void weigh(float (&scores)[N], float scale, float (&shrink)[2]) {
    float most[4] = {largest[0], largest[0], largest[1], largest[1]};
#pragma unroll
    for (int i = 0; i < N; ++i) most[i % 4] = fmaxf(most[i % 4], scores[i]);
    float offset[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float all = fmaxf(most[2 * r], most[2 * r + 1]);
      all = fmaxf(all, __shfl_xor_sync(kAllLanes, all, 1));
      all = fmaxf(all, __shfl_xor_sync(kAllLanes, all, 2));
      offset[r] = all == -INFINITY ? 0.0f : all * scale;  // a row that has seen no key yet keeps weights of zero
      shrink[r] = all == largest[r] ? 1.0f : exp2_quick(largest[r] * scale - offset[r]);
      largest[r] = all;
    }
    float part[4] = {0, 0, 0, 0};  // four independent chains of additions instead of two hide more latency
#pragma unroll
    for (int i = 0; i < N; ++i) {
      scores[i] = exp2_quick(fmaf(scores[i], scale, -offset[i / 2 % 2]));
      part[i % 4] += scores[i];
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) sum[r] = sum[r] * shrink[r] + (part[2 * r] + part[2 * r + 1]);
  }

  // The reciprocal of the sum of row r and of what is added to it; zero if the row saw no key.
  __device__ __forceinline__ float inverse(int r, float added) const {
    float whole = sum[r] + __shfl_xor_sync(kAllLanes, sum[r], 1);
    whole += __shfl_xor_sync(kAllLanes, whole, 2) + added;
    return whole > 0 ? 1 / whole : 0.0f;
  }
};

}  // namespace fk::cuda
