// Q6_K of GGUF: 256 elements of 6 bits, from -32 to 31, in sixteen groups of 16. A group has a signed byte as its
// scale, in units of one half of the block.
//
// Bytes: 128 of low halves, 64 of upper pairs of bits, 16 scales, the unit. Each half of the block, 128 elements, is
// stored for itself: its element i has its low half in byte i % 64, in the upper half of that byte where i >= 64, and
// its upper two bits in byte i % 32, at bit 2 (i / 32).
#include <algorithm>
#include <cmath>

#include "ops/formats/weight_format.h"

namespace fk {
namespace q6_k {
namespace {

constexpr int64_t kElements = 256, kHalf = 128, kGroup = 16, kGroups = kElements / kGroup;
constexpr int64_t kUpper = 128, kScales = 192, kUnit = 208, kBytes = 210;

int64_t low_byte(int64_t i) { return i / kHalf * 64 + i % 64; }
int low_shift(int64_t i) { return i % kHalf < 64 ? 0 : 4; }
int64_t upper_byte(int64_t i) { return kUpper + i / kHalf * 32 + i % 32; }
int upper_shift(int64_t i) { return static_cast<int>(i % kHalf / 32 * 2); }

void unpack_q6_k(const std::byte* block, int8_t* codes, float* scales, float*) {
  auto at = [&](int64_t i) { return static_cast<int>(block[i]); };
  for (int64_t i = 0; i < kElements; ++i) {
    int low = at(low_byte(i)) >> low_shift(i) & 15, upper = at(upper_byte(i)) >> upper_shift(i) & 3;
    codes[i] = static_cast<int8_t>((low | upper << 4) - 32);
  }
  float unit = load_half(block + kUnit);
  for (int64_t j = 0; j < kGroups; ++j) scales[j] = unit * static_cast<float>(static_cast<int8_t>(block[kScales + j]));
}

void quantise_q6_k(const float* values, std::byte* block) {
  // As in Q4_0: the element of the largest size becomes -32.
  float scales[kGroups], largest_scale = 0;
  for (int64_t j = 0; j < kGroups; ++j) {
    float largest = 0;
    for (int64_t i = 0; i < kGroup; ++i)
      if (std::abs(values[j * kGroup + i]) > std::abs(largest)) largest = values[j * kGroup + i];
    scales[j] = largest / -32;
    largest_scale = std::max(largest_scale, std::abs(scales[j]));
  }
  std::fill_n(block, kBytes, std::byte{0});
  store_half(block + kUnit, largest_scale / 127);
  float unit = load_half(block + kUnit);
  for (int64_t j = 0; j < kGroups; ++j) {
    float step = unit == 0 ? 0 : std::clamp(std::round(scales[j] / unit), -128.0f, 127.0f);
    block[kScales + j] = static_cast<std::byte>(static_cast<int8_t>(step));
    float scale = unit * step;
    for (int64_t i = j * kGroup; i < (j + 1) * kGroup; ++i) {
      auto code = static_cast<int>(scale == 0 ? 32 : std::clamp(std::round(values[i] / scale) + 32, 0.0f, 63.0f));
      block[low_byte(i)] |= static_cast<std::byte>((code & 15) << low_shift(i));
      block[upper_byte(i)] |= static_cast<std::byte>((code >> 4) << upper_shift(i));
    }
  }
}

const RegisterWeightFormat kQ6_K({.name = "q6_k",
                                  .block_elements = kElements,
                                  .block_bytes = kBytes,
                                  .scale_elements = kGroup,
                                  .gguf_type = 14,
                                  .unpack = unpack_q6_k,
                                  .quantise = quantise_q6_k});

}  // namespace
}  // namespace q6_k
}  // namespace fk
