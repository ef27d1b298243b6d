// Activations rounded to 8 bits, with one scale for 32 or more elements: the operand of integer dot products with
// quantised weights.
#pragma once

#include <cstdint>

#include "core/memory.h"
#include "core/tensor.h"
#include "core/thread_pool.h"

namespace fk {

inline constexpr int64_t kRoundedGroup = 32;

// m rows of k elements, k whole groups.
struct RoundedRows {
  int64_t m = 0, k = 0;
  int8_t* codes = nullptr;  // [m][k], -127 .. 127
  float* scales = nullptr;  // [m][k / 32]; with scales for more elements, some are equal
  float* sums = nullptr;    // [m][k / 32]: scale * the sum of the group's codes, for formats that subtract a minimum
  int16_t* code_sums = nullptr;  // [m][k / 16]: sums of codes

  int64_t groups() const { return k / kRoundedGroup; }
};

// In memory of the arena. x is bf16, f16 or f32 with dense rows of whole groups; group: a multiple of 32 elements that
// divides a row.
RoundedRows round_rows(const View& x, int64_t group, Arena& arena, ThreadPool& pool);

}  // namespace fk
