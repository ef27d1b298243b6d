// Bytes of ternary matrices (ops/formats/ternary.cpp): four codes of two bits, 0, 1 and 2.
#pragma once

#include <cstdint>

namespace fk {

// The largest of them has four codes 2.
inline constexpr uint8_t kLargestTernaryByte = 0b10101010;

// The same byte with code 1, the element 0, in the place of code 3, which is none: of random bits half of the elements
// are then 0, and as many -1 as 1.
constexpr uint8_t ternary_byte(uint8_t bits) {
  auto threes = static_cast<uint8_t>(bits & bits << 1 & kLargestTernaryByte);
  return static_cast<uint8_t>(bits & ~threes);
}

}  // namespace fk
