// Q4_K of GGUF: 256 elements as half bytes in eight groups of 32. A group has a scale and a minimum of 6 bits each, in
// units of two halves of the block.
//
// Bytes: the scales' unit, the minimums' unit (halves), 12 bytes of scales and minimums, 128 bytes of codes. Groups 2j
// and 2j + 1 are the low and the high halves of codes 32 j to 32 j + 31.
#include <algorithm>
#include <cmath>

#include "ops/formats/weight_format.h"

namespace fk {
namespace q4_k {
namespace {

constexpr int64_t kElements = 256, kGroup = 32, kGroups = kElements / kGroup;
constexpr int64_t kScales = 4, kCodes = 16, kBytes = 144;
constexpr int kMaxCode = 15, kMaxScale = 63;

uint8_t at(const std::byte* block, int64_t i) { return static_cast<uint8_t>(block[i]); }

// Groups 0 to 3 have their scale in byte j and their minimum in byte j + 4. The low halves of the others are in byte
// j + 4, and their upper two bits in the upper two bits of the bytes of groups 0 to 3.
struct Steps {
  int scale, minimum;
};
Steps steps_of(const std::byte* bytes, int64_t j) {
  if (j < 4) return {at(bytes, j) & 63, at(bytes, j + 4) & 63};
  return {(at(bytes, j + 4) & 15) | (at(bytes, j - 4) >> 6) << 4, at(bytes, j + 4) >> 4 | (at(bytes, j) >> 6) << 4};
}

void unpack_q4_k(const std::byte* block, int8_t* codes, float* scales, float* minimums) {
  float scale_unit = load_half(block), minimum_unit = load_half(block + 2);
  for (int64_t j = 0; j < kGroups; ++j) {
    Steps steps = steps_of(block + kScales, j);
    scales[j] = scale_unit * static_cast<float>(steps.scale);
    minimums[j] = minimum_unit * static_cast<float>(steps.minimum);
    for (int64_t i = 0; i < kGroup; ++i) {
      uint8_t pair = at(block, kCodes + j / 2 * kGroup + i);
      codes[j * kGroup + i] = static_cast<int8_t>(j % 2 == 0 ? pair & 15 : pair >> 4);
    }
  }
}

void quantise_q4_k(const float* values, std::byte* block) {
  float scales[kGroups], minimums[kGroups];
  for (int64_t j = 0; j < kGroups; ++j) {
    auto [low, high] = std::minmax_element(values + j * kGroup, values + (j + 1) * kGroup);
    minimums[j] = std::max(0.0f, -*low);  // it is subtracted and never negative
    scales[j] = std::max(0.0f, *high + minimums[j]) / kMaxCode;
  }
  std::fill_n(block, kBytes, std::byte{0});
  float scale_unit = *std::max_element(scales, scales + kGroups) / kMaxScale;
  float minimum_unit = *std::max_element(minimums, minimums + kGroups) / kMaxScale;
  store_half(block, scale_unit);
  store_half(block + 2, minimum_unit);
  auto step = [](float value, float unit) {
    return unit == 0 ? 0 : static_cast<int>(std::clamp(std::round(value / unit), 0.0f, static_cast<float>(kMaxScale)));
  };
  auto put = [&](int64_t i, int bits) { block[kScales + i] |= static_cast<std::byte>(bits); };
  for (int64_t j = 0; j < kGroups; ++j) {
    int scale = step(scales[j], scale_unit), minimum = step(minimums[j], minimum_unit);
    if (j < 4) {
      put(j, scale);
      put(j + 4, minimum);
    } else {
      put(j + 4, (scale & 15) | (minimum & 15) << 4);
      put(j - 4, (scale >> 4) << 6);
      put(j, (minimum >> 4) << 6);
    }
  }
  for (int64_t j = 0; j < kGroups; ++j) {
    Steps steps = steps_of(block + kScales, j);
    float scale = load_half(block) * static_cast<float>(steps.scale);
    float minimum = load_half(block + 2) * static_cast<float>(steps.minimum);
    for (int64_t i = 0; i < kGroup; ++i) {
      float code = scale == 0 ? 0 : std::round((values[j * kGroup + i] + minimum) / scale);
      auto bits = static_cast<int>(std::clamp(code, 0.0f, static_cast<float>(kMaxCode)));
      block[kCodes + j / 2 * kGroup + i] |= static_cast<std::byte>(j % 2 == 0 ? bits : bits << 4);
    }
  }
}

const RegisterWeightFormat kQ4_K({.name = "q4_k",
                                  .block_elements = kElements,
                                  .block_bytes = kBytes,
                                  .scale_elements = kGroup,
                                  .has_minimums = true,
                                  .gguf_type = 12,
                                  .unpack = unpack_q4_k,
                                  .quantise = quantise_q4_k});

}  // namespace
}  // namespace q4_k
}  // namespace fk
