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

// Near zero 1 - 2 / (1 + e^2x) cancels, and the series x - x^3/3 + 2 x^5/15 - 17 x^7/315 is exact to a rounding.
FK_INLINE float hyperbolic_tangent(float x) {
  float x2 = x * x;
  float series = x * (1.0f + x2 * (-0.333333333f + x2 * (0.133333333f + x2 * -0.053968254f)));
  float whole = 1.0f - 2.0f / (1.0f + vexp_bounded(2.0f * x));
  float y = x2 < 0.03f ? series : whole;
  return x != x ? x : y;
}

}  // namespace fk
