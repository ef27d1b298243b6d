// MXFP4: 32 elements as 4-bit floats (sign, two bits of exponent, one of mantissa) and a power of two as their scale,
// in the layout of GGUF. Byte 0 is the scale's exponent plus 127; byte 1 + i holds element i in its low half and
// element i + 16 in its high half. Checkpoints of gpt-oss store scales and elements as two tensors, with the elements
// in order; models/stored_layout.cpp brings them into this layout.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "ops/formats/weight_format.h"

namespace fk {
namespace mxfp4 {
namespace {

constexpr int64_t kElements = 32, kScaleBytes = 1;
// Twice what the codes 0 to 7 stand for, so that they are integers; 8 to 15 are the same with a minus.
constexpr int8_t kDoubled[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

void unpack_mxfp4(const std::byte* block, int8_t* codes, float* scales, float*) {
  scales[0] = std::ldexp(1.0f, static_cast<int>(block[0]) - 128);
  for (int64_t i = 0; i < kElements / 2; ++i) {
    auto pair = static_cast<uint8_t>(block[kScaleBytes + i]);
    codes[i] = kDoubled[pair & 15];
    codes[i + kElements / 2] = kDoubled[pair >> 4];
  }
}

void quantise_mxfp4(const float* values, std::byte* block) {
  // Without branches, so that compilers use vectors: dummy weights of a large model have billions of elements.
  uint32_t bits[kElements], largest_bits = 0;
  std::memcpy(bits, values, sizeof bits);
  for (uint32_t b : bits) {
    b &= 0x7fffffff;
    largest_bits = std::max(largest_bits, b > 0x7f800000 ? 0 : b);  // a NaN is not the largest
  }
  const auto largest = std::bit_cast<float>(largest_bits);
  // The largest code is 6, so the largest element becomes 4 to 6; from 6 on it is cut off.
  int exponent = largest > 0 ? std::clamp(std::ilogb(largest) - 2, -127, 127) : 0;
  block[0] = static_cast<std::byte>(exponent + 127);
  const float unit = std::ldexp(1.0f, -exponent);
  uint8_t codes[kElements];
  for (int64_t i = 0; i < kElements; ++i) {
    const float size = std::abs(values[i]) * unit;
    const int nearest = (0.25f < size) + (0.75f < size) + (1.25f < size) + (1.75f < size) + (2.5f < size) +
                        (3.5f < size) + (5.0f < size);
    const int negative = static_cast<int>(values[i] < 0) & static_cast<int>(nearest > 0);
    codes[i] = static_cast<uint8_t>(nearest + 8 * negative);
  }
  for (int64_t i = 0; i < kElements / 2; ++i)
    block[kScaleBytes + i] = static_cast<std::byte>(codes[i] | codes[i + kElements / 2] << 4);
}

const RegisterWeightFormat kMxfp4({.name = "mxfp4",
                                   .block_elements = kElements,
                                   .block_bytes = kScaleBytes + kElements / 2,
                                   .scale_elements = kElements,
                                   .gguf_type = 39,
                                   .unpack = unpack_mxfp4,
                                   .quantise = quantise_mxfp4});

}  // namespace
}  // namespace mxfp4
}  // namespace fk
