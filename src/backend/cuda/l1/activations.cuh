// Activation functions, as types for kernels; T is what the result is rounded to.
#pragma once

#include "backend/cuda/l1/gate_and_mul.cuh"

namespace fk::cuda {

// x times the cumulative normal distribution Phi of x.
struct GeluExact {
  template <class T>
  __device__ static float of(float x) {
    if constexpr (sizeof(T) == 2) return quick(x);
    constexpr float kSqrtHalf = 0.70710678118654752f;
    return 0.5f * x * erfcf(-kSqrtHalf * x);
  }

  // For 16-bit results: Phi(x) is the logistic function of l = ln(Phi(x) / Phi(-x)), which is odd; l / x is a
  // polynomial of x^2 here, fitted for |x| < 5.5, so that x Phi(x) is off by at most 3e-7 of it plus 1e-7. Beyond, l is
  // larger than it should be, and x Phi(x) less than 2e-7 away from 0 or x.
  __device__ static float quick(float x) {
    const float square = x * x;
    float l = 3.5855736e-09f;
    l = fmaf(l, square, -2.6560514e-07f);
    l = fmaf(l, square, 7.9147603e-06f);
    l = fmaf(l, square, -1.1028696e-04f);
    l = fmaf(l, square, -6.6989851e-05f);
    l = fmaf(l, square, 0.072669677f);
    l = fmaf(l, square, 1.5957680f);
    return over_one_plus_exp<__half>(x, -x * l);
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
