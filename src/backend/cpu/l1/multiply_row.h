// A row times a number, for operators that scale rows.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace fk {

void multiply_row(const bf16* x, float factor, bf16* out, int64_t n);
void multiply_row(const f16* x, float factor, f16* out, int64_t n);
void multiply_row(const float* x, float factor, float* out, int64_t n);

}  // namespace fk
