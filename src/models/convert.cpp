#include "models/convert.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/check.h"
#include "core/simd_clones.h"

namespace fk {
namespace {

// Branch-free, unlike f16's own conversions, so that loops are vectorised.

inline float f16_to_float(uint16_t h) {
  uint32_t magnitude = (h & 0x7fffu) << 13;  // the fraction shifted to its position in float
  uint32_t exponent = magnitude & 0x0f800000u;
  uint32_t bits = magnitude + (112u << 23);          // rebias from 15 to 127
  bits += exponent == 0x0f800000u ? 112u << 23 : 0;  // infinity and NaN: all exponent bits
  float normal = std::bit_cast<float>(bits);
  // A subnormal is fraction * 2^-24: give it the exponent of 2^-14 and take 2^-14 away again.
  float subnormal = std::bit_cast<float>(bits + (1u << 23)) - 0x1p-14f;
  float value = exponent == 0 ? subnormal : normal;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | (h & 0x8000u) << 16);
}

inline uint16_t float_to_f16(float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x);
  uint32_t magnitude = bits & 0x7fffffffu;
  // Round the 13 bits that go, to nearest even; a carry into the exponent is right, past the last one it is infinity.
  uint32_t normal = std::min((magnitude + 0xfffu + ((magnitude >> 13) & 1u) - (112u << 23)) >> 13, 0x7c00u);
  // One half has an ulp of 2^-24, the unit of a subnormal: the addition rounds for us.
  uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t value = magnitude < (113u << 23) ? subnormal : normal;
  value = magnitude > 0x7f800000u ? 0x7e00u : value;
  return static_cast<uint16_t>(value | (bits >> 16 & 0x8000u));
}

// Elements are read and written through memcpy because a file's tensors are not aligned.

FK_SIMD_CLONES void widen_f16(const std::byte* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    uint16_t h;
    std::memcpy(&h, from + 2 * i, sizeof h);
    to[i] = f16_to_float(h);
  }
}

FK_SIMD_CLONES void widen_bf16(const std::byte* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    uint16_t h;
    std::memcpy(&h, from + 2 * i, sizeof h);
    to[i] = std::bit_cast<float>(uint32_t{h} << 16);
  }
}

FK_SIMD_CLONES void narrow_f16(const float* from, std::byte* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    uint16_t h = float_to_f16(from[i]);
    std::memcpy(to + 2 * i, &h, sizeof h);
  }
}

FK_SIMD_CLONES void narrow_bf16(const float* from, std::byte* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    uint16_t h = bf16(from[i]).bits;
    std::memcpy(to + 2 * i, &h, sizeof h);
  }
}

void widen(const std::byte* from, DType type, float* to, int64_t n) {
  if (type == DType::kF16)
    widen_f16(from, to, n);
  else if (type == DType::kBF16)
    widen_bf16(from, to, n);
  else
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
}

void narrow(const float* from, std::byte* to, DType type, int64_t n) {
  if (type == DType::kF16)
    narrow_f16(from, to, n);
  else if (type == DType::kBF16)
    narrow_bf16(from, to, n);
  else
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
}

}  // namespace

void convert_elements(const void* from, DType from_type, void* to, DType to_type, int64_t n) {
  FK_CHECK(dtype_is_weight(from_type) && dtype_is_weight(to_type));
  const auto* source = static_cast<const std::byte*>(from);
  auto* target = static_cast<std::byte*>(to);
  auto source_size = static_cast<int64_t>(dtype_size(from_type));
  auto target_size = static_cast<int64_t>(dtype_size(to_type));
  if (n == 0) return;
  if (from_type == to_type) {
    std::memcpy(target, source, static_cast<size_t>(n * target_size));
    return;
  }
  constexpr int64_t kTile = 1024;  // floats between the two steps, fits in L1
  float tile[kTile];
  for (int64_t i = 0; i < n; i += kTile) {
    int64_t count = std::min(kTile, n - i);
    widen(source + i * source_size, from_type, tile, count);
    narrow(tile, target + i * target_size, to_type, count);
  }
}

}  // namespace fk
