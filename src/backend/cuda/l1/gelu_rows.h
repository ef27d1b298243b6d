// The exact gelu of a tensor without gaps, in place, for fused blocks.
#pragma once

#include "core/tensor.h"

namespace fk::cuda {

// bf16 or f16, on 16 bytes; the number of elements is a multiple of 8.
void gelu_in_place(const View& x, void* stream);

}  // namespace fk::cuda
