// Rows of FP8 e4m3 codes and the scales that belong to them.
#pragma once

#include <bit>

#include "backend/cpu/simd.h"
#include "core/tensor.h"

namespace fk {

// Where the scales of a row are, from the shape of the tensor: one for the matrix, for each row, or for each block.
struct Fp8Scales {
  static constexpr int64_t kBlock = 128;

  const float* of_row;  // one for every `run` elements
  int64_t run;

  Fp8Scales(const View& scales, int64_t rows, int64_t columns, int64_t row) {
    const auto* all = scales.ptr<float>();
    // A matrix of one row has one row of blocks.
    bool blocks = scales.rank() == 2 && (scales.size(0) != rows || scales.size(1) > 1);
    run = blocks ? kBlock : columns;
    of_row = scales.numel() == 1 ? all : blocks ? all + row / kBlock * scales.stride(0) : all + row * scales.stride(0);
    if (scales.numel() == 1) run = columns;
  }
};

// The sign is eight bits higher in a float, and exponent and mantissa twenty; the exponent's bias is 120 less. Numbers
// below 2^-6 become subnormal floats, which the product makes normal.
FK_INLINE float fp8_value(uint8_t code) {
  uint32_t magnitude = code & 0x7fu;
  float value = std::bit_cast<float>(magnitude << 20) * 0x1p120f;
  uint32_t bits = std::bit_cast<uint32_t>(value) | (magnitude == 0x7fu ? 0x7fc00000u : 0u);
  return std::bit_cast<float>(bits | (code & 0x80u) << 24);
}

}  // namespace fk
