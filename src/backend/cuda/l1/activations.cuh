// Activation functions, as types for kernels; T is what the result is rounded to.
#pragma once

#include "backend/cuda/l1/gate_and_mul.cuh"

namespace fk::cuda {

// x times the cumulative normal distribution of x.
struct GeluExact {
  template <class T>
  __device__ static float of(float x) {
    constexpr float kSqrtHalf = 0.70710678118654752f;
    return 0.5f * x * erfcf(-kSqrtHalf * x);
  }
};

// (1 + tanh z) / 2 is the logistic function of 2 z, which does not cancel for negative z.
struct GeluTanh {
  template <class T>
  __device__ static float of(float x) {
    constexpr float k2Sqrt2OverPi = 1.5957691216f;
    return over_one_plus_exp<T>(x, -k2Sqrt2OverPi * (x + 0.044715f * x * x * x));
  }
};

struct Silu {
  template <class T>
  __device__ static float of(float x) {
    return over_one_plus_exp<T>(x, -x);
  }
};

struct QuickGelu {
  template <class T>
  __device__ static float of(float x) {
    return over_one_plus_exp<T>(x, -1.702f * x);
  }
};

// A NaN stays one.
struct Relu {
  template <class T>
  __device__ static float of(float x) {
    return x < 0 ? 0.0f : x;
  }
};

struct Relu2 {
  template <class T>
  __device__ static float of(float x) {
    return x < 0 ? 0.0f : x * x;
  }
};

struct Sigmoid {
  template <class T>
  __device__ static float of(float x) {
    return over_one_plus_exp<T>(1.0f, -x);
  }
};

struct Tanh {
  template <class T>
  __device__ static float of(float x) {
    return tanhf(x);
  }
};

}  // namespace fk::cuda
