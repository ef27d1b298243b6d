// The activation of SwigluOAIAndMul, also of kernels that fuse it.
#pragma once

#include "backend/cuda/l1/gate_and_mul.cuh"

namespace fk::cuda {

struct SwigluLimits {
  float alpha;
  float limit;
};

// T: what the result is rounded to. Comparisons keep a NaN.
template <class T>
__device__ __forceinline__ float swigluoai(float gate, float up, const SwigluLimits& limits) {
  gate = gate > limits.limit ? limits.limit : gate;
  up = up > limits.limit ? limits.limit : up < -limits.limit ? -limits.limit : up;
  return over_one_plus_exp<T>(gate, -limits.alpha * gate) * (up + 1.0f);
}

}  // namespace fk::cuda
