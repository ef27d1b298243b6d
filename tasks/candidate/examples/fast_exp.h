// e^x in float, without branches, so that loops over it vectorise. Right to about two units in the last place.
#pragma once

#include <stdint.h>
#include <string.h>

inline float fast_exp(float x) {
  // Beyond these the result leaves the range of floats; the ends are still right after rounding to infinity or zero.
  x = x < -87.3f ? -87.3f : x;
  x = x > 88.3f ? 88.3f : x;
  // e^x = 2^n e^r with |r| <= ln(2) / 2; adding and subtracting 1.5 * 2^23 rounds to a whole number.
  float shifted = x * 1.44269504f + 12582912.0f;
  float n = shifted - 12582912.0f;
  float r = x - n * 0.693359375f - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1;
  int32_t bits = (static_cast<int32_t>(n) + 127) << 23;
  float power;
  memcpy(&power, &bits, 4);
  return p * power;
}
