// Sums to which many blocks add. They are integers, because the sum of floats would depend on the order in which blocks
// add.
#pragma once

#include <cuda_runtime.h>

#include "backend/cuda/device/term_scale.h"

namespace fk::cuda {

// Adds to sum i.
__device__ __forceinline__ void add_term(unsigned long long* sums, const TermPlaces& places, int i, float term) {
  const auto whole = [](float units) { return static_cast<unsigned long long>(__float2ll_rn(units)); };
  unsigned long long* of_copy = sums + places.of_copy(static_cast<int>(blockIdx.x) % kTermCopies);
  if (fabsf(term) < kFirstLimit) {
    atomicAdd(of_copy + i, whole(term * kFirstUnits));
  } else if (isfinite(term)) {
    const int scale = term_scale(fabsf(term));
    atomicAdd(sums + places.of_scale(scale) + i, whole(term * terms_per_one(scale)));
    atomicAdd(of_copy + places.count, kLargeTerm);
  } else {
    atomicAdd(of_copy + places.count, kNoTerm);
  }
}

// Sum i of the first scale, or, with i = places.count, the count of all other terms, after all blocks have added.
__device__ __forceinline__ unsigned long long first_sum(const unsigned long long* sums, const TermPlaces& places,
                                                        int i) {
  unsigned long long sum = 0;
#pragma unroll
  for (int copy = 0; copy < kTermCopies; ++copy) sum += __ldcg(sums + places.of_copy(copy) + i);
  return sum;
}
__device__ __forceinline__ unsigned long long unusual_terms(const unsigned long long* sums, const TermPlaces& places) {
  return first_sum(sums, places, places.count);
}

// Sum i after all blocks have added. If any term was infinite or NaN, all sums are NaN.
__device__ __forceinline__ float sum_of_terms(const unsigned long long* sums, const TermPlaces& places, int i,
                                              unsigned long long unusual) {
  const unsigned long long sum = first_sum(sums, places, i);
  const auto number = [](unsigned long long bits) { return static_cast<long long>(bits); };
  if (unusual == 0) return static_cast<float>(number(sum)) * (1 / kFirstUnits);
  if (unusual >= kNoTerm) return __int_as_float(0x7fffffff);  // NaN
  double all = static_cast<double>(number(sum)) / kFirstUnits;
  for (int scale = 1; scale < kTermScales; ++scale)
    all += static_cast<double>(number(__ldcg(sums + places.of_scale(scale) + i))) / terms_per_one(scale);
  return static_cast<float>(all);
}

}  // namespace fk::cuda
