// Q8_0 of GGUF: 32 elements as signed bytes with one half as their scale.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/formats/weight_format.h"

namespace fk {
namespace q8_0 {
namespace {

constexpr int64_t kElements = 32, kScaleBytes = 2;

void unpack_q8_0(const std::byte* block, int8_t* codes, float* scales, float*) {
  scales[0] = load_half(block);
  std::memcpy(codes, block + kScaleBytes, kElements);
}

void quantise_q8_0(const float* values, std::byte* block) {
  float largest = 0;
  for (int64_t i = 0; i < kElements; ++i) largest = std::max(largest, std::abs(values[i]));
  float scale = largest / 127;
  store_half(block, scale);
  for (int64_t i = 0; i < kElements; ++i)
    block[kScaleBytes + i] = static_cast<std::byte>(
        static_cast<int8_t>(scale == 0 ? 0 : std::clamp(std::round(values[i] / scale), -127.0f, 127.0f)));
}

const RegisterWeightFormat kQ8_0({.name = "q8_0",
                                  .block_elements = kElements,
                                  .block_bytes = kScaleBytes + kElements,
                                  .scale_elements = kElements,
                                  .gguf_type = 8,
                                  .unpack = unpack_q8_0,
                                  .quantise = quantise_q8_0});

}  // namespace
}  // namespace q8_0
}  // namespace fk
