// One row of rounded_rows.h, with the vector instructions of the architecture.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace fk {

// Where the parts of the row go.
struct RoundedRow {
  int8_t* codes;
  float *scales, *sums;
  int16_t* code_sums;
};

// Below this 127 / largest is no longer a finite float, and the numbers are too small to matter for any output.
inline constexpr float kSmallestRounded = 0x1p-100f;

void round_row(const bf16* x, int64_t k, int64_t group, const RoundedRow& to);
void round_row(const f16* x, int64_t k, int64_t group, const RoundedRow& to);
void round_row(const float* x, int64_t k, int64_t group, const RoundedRow& to);

}  // namespace fk
