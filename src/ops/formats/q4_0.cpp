// Q4_0 of GGUF: 32 elements as half bytes, from -8 to 7, with one half as their scale. Byte i holds element i in its
// low half and element i + 16 in its high half, both with 8 added.
#include <algorithm>
#include <cmath>

#include "ops/formats/weight_format.h"

namespace fk {
namespace q4_0 {
namespace {

constexpr int64_t kElements = 32, kScaleBytes = 2;

void unpack_q4_0(const std::byte* block, int8_t* codes, float* scales, float*) {
  scales[0] = load_half(block);
  for (int64_t i = 0; i < kElements / 2; ++i) {
    auto pair = static_cast<uint8_t>(block[kScaleBytes + i]);
    codes[i] = static_cast<int8_t>((pair & 15) - 8);
    codes[i + kElements / 2] = static_cast<int8_t>((pair >> 4) - 8);
  }
}

void quantise_q4_0(const float* values, std::byte* block) {
  // The element of the largest size becomes -8, the end of the range that reaches further.
  float largest = 0;
  for (int64_t i = 0; i < kElements; ++i)
    if (std::abs(values[i]) > std::abs(largest)) largest = values[i];
  float scale = largest / -8;
  store_half(block, scale);
  auto code = [&](int64_t i) {
    return static_cast<uint8_t>(scale == 0 ? 8 : std::clamp(std::round(values[i] / scale) + 8, 0.0f, 15.0f));
  };
  for (int64_t i = 0; i < kElements / 2; ++i)
    block[kScaleBytes + i] = static_cast<std::byte>(code(i) | code(i + kElements / 2) << 4);
}

const RegisterWeightFormat kQ4_0({.name = "q4_0",
                                  .block_elements = kElements,
                                  .block_bytes = kScaleBytes + kElements / 2,
                                  .scale_elements = kElements,
                                  .gguf_type = 2,
                                  .unpack = unpack_q4_0,
                                  .quantise = quantise_q4_0});

}  // namespace
}  // namespace q4_0
}  // namespace fk
