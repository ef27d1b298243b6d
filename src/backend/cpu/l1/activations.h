// The activation functions of several operators, in float, for loops that vectorise.
#pragma once

#include "backend/cpu/vector_math.h"

namespace fk {

// x times the logistic function of `z`.
FK_INLINE float times_logistic(float x, float z) { return x / (1.0f + vexp_bounded(-z)); }

// x times the cumulative normal distribution of x.
FK_INLINE float gelu_exact(float x) { return x * normal_cdf(x); }

// (1 + tanh z) / 2 is the logistic function of 2 z, which does not cancel for negative z.
FK_INLINE float gelu_tanh(float x) {
  constexpr float k2Sqrt2OverPi = 1.5957691216f;
  return times_logistic(x, k2Sqrt2OverPi * (x + 0.044715f * x * x * x));
}

FK_INLINE float gelu_quick(float x) { return times_logistic(x, 1.702f * x); }

FK_INLINE float silu(float x) { return times_logistic(x, x); }

FK_INLINE float relu(float x) { return x < 0 ? 0.0f : x; }  // a NaN stays one

FK_INLINE float relu_squared(float x) { return relu(x) * relu(x); }

// A NaN stays one, which vexp_bounded alone does not promise.
FK_INLINE float logistic_function(float x) {
  float y = 1.0f / (1.0f + vexp_bounded(-x));
  return x != x ? x : y;
}

// The logarithm of the logistic function: min(x, 0) - log(1 + e^-|x|), and log(1 + y) = 2 atanh(y / (2 + y)), an odd
// series that is short up to 1/3.
FK_INLINE float log_of_logistic(float x) {
  float y = vexp_bounded(x < 0 ? x : -x);
  float s = y / (2.0f + y), s2 = s * s;
  float p = 1.0f / 15;
  p = p * s2 + 1.0f / 13;
  p = p * s2 + 1.0f / 11;
  p = p * s2 + 1.0f / 9;
  p = p * s2 + 1.0f / 7;
  p = p * s2 + 1.0f / 5;
  p = p * s2 + 1.0f / 3;
  p = p * s2 + 1.0f;
  float r = (x < 0 ? x : 0.0f) - 2.0f * s * p;
  return x != x ? x : r;
}

// Near zero 1 - 2 / (1 + e^2x) cancels, and the series x - x^3/3 + 2 x^5/15 - 17 x^7/315 is exact to a rounding.
FK_INLINE float hyperbolic_tangent(float x) {
  float x2 = x * x;
  float series = x * (1.0f + x2 * (-0.333333333f + x2 * (0.133333333f + x2 * -0.053968254f)));
  float whole = 1.0f - 2.0f / (1.0f + vexp_bounded(2.0f * x));
  float y = x2 < 0.03f ? series : whole;
  return x != x ? x : y;
}

}  // namespace fk
