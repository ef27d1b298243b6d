// Elementary functions in float without branches or tables, so that loops over them vectorise. Errors are bounded in
// tests/backend/cpu/vector_math_test.cpp, over the whole range, against double.
#pragma once

#include <limits>

#include "backend/cpu/simd.h"

namespace fk {

inline constexpr float kLargestExp = 0x1.62e42ep6f;    // the last float with a finite e^x
inline constexpr float kSmallestExp = -0x1.5d589ep6f;  // the last float with a normal e^x

// The nearest number to x within both bounds; of a NaN, any of them, or the NaN. In loops, GCC makes one instruction of
// each comparison on x86-64, and of fmin on aarch64, where a comparison that keeps a NaN becomes four.
FK_INLINE float bounded(float x, float least, float most) {
#if defined(__aarch64__)
  return __builtin_fmaxf(__builtin_fminf(x, most), least);
#else
  x = x > most ? most : x;
  return x < least ? least : x;
#endif
}

// e^x within 1.2 ulp, x first brought into [kSmallestExp, kLargestExp]: for formulas that need neither 0 nor infinity
// and handle NaN elsewhere, since the result for NaN is undefined.
//
// x = n ln 2 + r with |r| <= ln(2)/2, and e^r = 1 + r + r^2 q(r), q fitted for the smallest maximum relative error
// (3e-9).
FK_INLINE float vexp_bounded(float x) {
  constexpr float kRound = 0x1.8p23f;       // adding it leaves the nearest integer in the low bits
  constexpr float kLn2High = 0x1.62e4p-1f;  // 15 bits: its product with any n is exact
  constexpr float kLn2Low = 0x1.7f7d1cp-20f;

  x = bounded(x, kSmallestExp, kLargestExp);
  float shifted = x * 0x1.715476p0f + kRound;
  float n = shifted - kRound;
  float r = (x - n * kLn2High) - n * kLn2Low;
  float q = 1.381446724e-03f;
  q = q * r + 8.368780836e-03f;
  q = q * r + 4.166839272e-02f;
  q = q * r + 1.666651964e-01f;
  q = q * r + 4.999999404e-01f;
  float p = r * r * q + r + 1.0f;
  // 2^n is added to the exponent bits: p is in [0.7, 1.42] and n within -126 .. 128, so the result stays normal.
  uint32_t exponent = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRound);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p) + (exponent << 23));
}

// e^x within 1.2 ulp; what would be subnormal is 0.
FK_INLINE float vexp(float x) {
  float y = vexp_bounded(x);
  y = x <= kLargestExp ? y : std::numeric_limits<float>::infinity();
  y = x >= kSmallestExp ? y : 0.0f;
  return x == x ? y : x;
}

// log(1 + e^x) within 3 ulp, also far below zero, where it is e^x; NaN for NaN.
//
// It is max(x, 0) + log1p(e^-|x|), and log1p(y) = 2 atanh(s) with s = y / (2 + y) <= 1/3, an odd series whose terms
// beyond the seventh change nothing.
FK_INLINE float softplus(float x) {
  float a = x < 0 ? x : -x;
  float y = vexp_bounded(a);
  float s = y / (2.0f + y);
  float s2 = s * s;
  float p = 1.0f / 13;
  p = p * s2 + 1.0f / 11;
  p = p * s2 + 1.0f / 9;
  p = p * s2 + 1.0f / 7;
  p = p * s2 + 1.0f / 5;
  p = p * s2 + 1.0f / 3;
  p = p * s2 + 1.0f;
  float log1p = 2.0f * s * p;
  float r = (x > 0 ? x : 0.0f) + log1p;
  return x != x ? x : r;
}

// The cumulative normal distribution of x, (1 + erf(x / sqrt 2)) / 2, within 3.5 ulp and x^2/4 more in the lower tail.
//
// The tail beyond |x| is e^(-x^2/2) p(t) with t = 1 / (1 + 0.35 |x|), p fitted for the least relative error (4e-8) over
// |x| <= 14, where the tail leaves the range of float; beyond, it stays around 1e-39.
FK_INLINE float normal_cdf(float x) {
  float a = x < 0 ? -x : x;
  float t = 1.0f / (1.0f + 0.35f * a);
  float p = -2.914592624e-02f;
  p = p * t + 1.439716816e-01f;
  p = p * t + -2.557142079e-01f;
  p = p * t + 1.591741145e-01f;
  p = p * t + -2.310980111e-02f;
  p = p * t + 1.055079922e-01f;
  p = p * t + 1.198328733e-01f;
  p = p * t + 1.398618668e-01f;
  p = p * t + 1.396214068e-01f;
  float tail = vexp_bounded(-0.5f * a * a) * (p * t);
  return x < 0 ? tail : 1.0f - tail;
}

struct SinCos {
  float sin;
  float cos;
};

// Of an angle in double, |angle| < 2^30, within 1e-7. The angle is brought to [-pi/4, pi/4] in double, where a position
// of a million still leaves ten good digits; two short polynomials in float do the rest.
FK_INLINE SinCos sin_cos(double angle) {
  constexpr double kRound = 0x1.8p52;
  double shifted = angle * 0x1.45f306dc9c883p-1 + kRound;  // 2/pi
  double n = shifted - kRound;
  auto r = static_cast<float>(angle - n * 0x1.921fb54442d18p0);  // pi/2
  auto quarter = static_cast<int32_t>(std::bit_cast<int64_t>(shifted));

  float r2 = r * r;
  float s = -1.951723534e-04f;
  s = s * r2 + 8.332177997e-03f;
  s = s * r2 + -1.666665524e-01f;
  s = s * r2 * r + r;
  float c = 2.443837911e-05f;
  c = c * r2 + -1.388736651e-03f;
  c = c * r2 + 4.166664556e-02f;
  c = c * r2 * r2 - 0.5f * r2 + 1.0f;

  bool odd = (quarter & 1) != 0;
  float sine = odd ? c : s, cosine = odd ? s : c;
  return {(quarter & 2) != 0 ? -sine : sine, ((quarter + 1) & 2) != 0 ? -cosine : cosine};
}

}  // namespace fk
