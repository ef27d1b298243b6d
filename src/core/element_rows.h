// Elements at equal distances, read or written as double; a row costs one look at its dtype instead of one per element.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace fk {

// The same numbers as load_element and store_element give; `stride` is in elements.
void load_elements(const void* first, DType t, int64_t stride, int64_t n, double* values);
void store_elements(void* first, DType t, int64_t stride, int64_t n, const double* values);

}  // namespace fk
