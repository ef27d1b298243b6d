#include "backend/cpu/quantised/fp8_groups.h"

#include <bit>

#include "backend/cpu/simd.h"

namespace fk {
namespace {

constexpr float kLargest = 448, kLeast = 1e-10f;

// Rounds to nearest even. Below 2^-6 codes are multiples of 2^-9, as floats from 2^14 to 2^15 are: a sum rounds there.
// The size is at most 448 but for rounding of the division, and NaN becomes 0x7f.
FK_INLINE uint8_t fp8_code(float x) {
  auto bits = std::bit_cast<uint32_t>(x);
  uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t normal = (magnitude - (120u << 23) + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20;
  uint32_t small =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0x1p14f) - std::bit_cast<uint32_t>(0x1p14f);
  uint32_t code = magnitude < 0x3c800000u ? small : normal;
  code = code > 0x7eu ? 0x7eu : code;
  code = magnitude > 0x7f800000u ? 0x7fu : code;
  return static_cast<uint8_t>(code | (bits >> 24 & 0x80u));
}

FK_SIMD_CLONES uint32_t largest_bits(const float* values, int64_t n) {
  uint32_t largest = 0;  // as integers: positive floats have the same order, and a NaN is the largest
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits = std::bit_cast<uint32_t>(values[i]) & 0x7fffffffu;
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

FK_SIMD_CLONES void store_codes(const float* values, int64_t n, float scale, uint8_t* codes) {
  for (int64_t i = 0; i < n; ++i) codes[i] = fp8_code(values[i] / scale);
}

}  // namespace

void round_to_fp8(const float* values, int64_t width, int64_t groups, uint8_t* codes, float* scales) {
  int64_t length = width / groups;
  for (int64_t g = 0; g < groups; ++g) {
    auto largest = std::bit_cast<float>(largest_bits(values + g * length, length));
    scales[g] = (largest < kLeast ? kLeast : largest) / kLargest;
    store_codes(values + g * length, length, scales[g], codes + g * length);
  }
}

}  // namespace fk
