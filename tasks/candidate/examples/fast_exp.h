// e^x and silu in float, without branches, so that loops over them vectorise.
#pragma once

#include <math.h>
#include <stdint.h>

// For x <= 0, with an error of about two ulp; below -87 the result stays at e^-87, near the smallest normal float.
inline float fast_exp(float x) {
  x = x < -87.0f ? -87.0f : x;
  // e^x = 2^n e^r with |r| <= ln(2) / 2; adding and subtracting 1.5 * 2^23 rounds to a whole number.
  float n = x * 1.44269504f + 12582912.0f - 12582912.0f;
  float r = x - n * 0.693359375f - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1;
  return p * __builtin_bit_cast(float, (static_cast<int32_t>(n) + 127) << 23);
}

// g / (1 + e^-g), written with e^-|g|: the divisor stays between 1 and 2. Division by a huge number gives a subnormal
// result, which takes a hundred times longer, and vector code computes it for every lane.
inline float silu(float g) {
  float x = -fabsf(g);
  float e = fast_exp(x < -70.0f ? -70.0f : x);
  return g * (g < 0 ? e : 1.0f) / (1 + e);
}
