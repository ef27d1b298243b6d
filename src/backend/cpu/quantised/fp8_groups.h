// Rows of floats rounded to FP8 e4m3 in groups, for kernels that produce them.
#pragma once

#include <cstdint>

namespace fk {

// codes[i] = values[i] / scale of its group; scales[g] = the largest size in group g / 448. NaN stays NaN.
void round_to_fp8(const float* values, int64_t width, int64_t groups, uint8_t* codes, float* scales);

}  // namespace fk
