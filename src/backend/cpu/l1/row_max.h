// The largest element of a row and its index: the first step of arg-max, softmax and sampling.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace fk {

struct RowMax {
  int32_t key;    // order_key of the largest element; every NaN counts as largest
  int64_t index;  // the first element with that key
};

// Of a row that is not empty.
RowMax row_max(const bf16* x, int64_t n);
RowMax row_max(const f16* x, int64_t n);
RowMax row_max(const float* x, int64_t n);

// The largest number of a row, NaN left out; -infinity where there is none.
float row_max_number(const bf16* x, int64_t n);
float row_max_number(const f16* x, int64_t n);
float row_max_number(const float* x, int64_t n);

}  // namespace fk
