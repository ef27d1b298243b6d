// Vectorisation of plain loops: one source, compiled for several instruction sets, selected when the program starts.
//
// A kernel is an inline template over the element type, called from non-template functions marked FK_SIMD_CLONES, one
// per dtype. Everything it calls in its inner loop is FK_INLINE, so that it is compiled for the clone's instruction
// set.
#pragma once

#include <bit>
#include <cstdint>

#include "core/dtype.h"
#include "core/simd_clones.h"

#define FK_INLINE inline __attribute__((always_inline))

namespace fk {

// Elements as float and back. A loop that copies bf16 objects does not vectorise; one that copies their bits does.
FK_INLINE float load(const float& x) { return x; }
FK_INLINE float load(const bf16& x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }
// The exponent bias of a half is 112 below a float's; the product also converts subnormal numbers.
FK_INLINE float load(const f16& x) {
  uint32_t magnitude = x.bits & 0x7fffu;
  auto bits = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112f);
  bits = magnitude >= 0x7c00u ? bits | 0x7f800000u : bits;  // infinities and NaNs
  return std::bit_cast<float>(bits | (x.bits & 0x8000u) << 16);
}

FK_INLINE void store(float& to, float x) { to = x; }
// Rounds to nearest even. A NaN stays a NaN because its low 16 bits are zero, as in every NaN that arithmetic on bf16
// operands or an invalid operation produces; other NaNs must not be passed.
FK_INLINE void store(bf16& to, float x) {
  auto u = std::bit_cast<uint32_t>(x);
  to.bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
// Rounds to nearest even. Below 2^-14 halves are multiples of 2^-24, as floats from 0.5 to 1 are: a sum rounds there.
FK_INLINE void store(f16& to, float x) {
  auto bits = std::bit_cast<uint32_t>(x);
  uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t half = magnitude < 0x38800000u ? small : normal;
  half = magnitude >= 0x477ff000u ? 0x7c00u : half;  // from 65520 on
  half = magnitude > 0x7f800000u ? 0x7e00u : half;
  to.bits = static_cast<uint16_t>((bits >> 16 & 0x8000u) | half);
}

// Maps a float to an integer with the same order: maxima of integers vectorise, those of floats only with flags that
// ignore NaN. Zeros of either sign are equal; the caller chooses the position of NaN.
inline constexpr int32_t kAboveInfinity = INT32_MAX;
inline constexpr int32_t kMinusInfinity = INT32_MIN + 0x7fffff;

FK_INLINE int32_t order_key(float x, int32_t nan = kAboveInfinity) {
  auto bits = std::bit_cast<int32_t>(x + 0.0f);  // -0 + 0 is +0
  int32_t key = bits ^ ((bits >> 31) & 0x7fffffff);
  return x != x ? nan : key;
}

FK_INLINE float from_order_key(int32_t key) { return std::bit_cast<float>(key ^ ((key >> 31) & 0x7fffffff)); }

// term(0) + ... + term(n-1), in 32 running sums that are added up in pairs: the same order on every machine, and less
// work at the end of a short row than a compiler's own reduction.
template <class Term>
FK_INLINE float lane_sum(int64_t n, Term term) {
  constexpr int kLanes = 32;
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma GCC unroll 32
    for (int j = 0; j < kLanes; ++j) lanes[j] += term(i + j);
  }
  for (int j = 0; i + j < n; ++j) lanes[j] += term(i + j);
#pragma GCC unroll 5
  for (int half = kLanes / 2; half > 0; half /= 2) {
#pragma GCC unroll 16
    for (int j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  }
  return lanes[0];
}

}  // namespace fk
