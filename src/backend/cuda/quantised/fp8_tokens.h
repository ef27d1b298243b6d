// Activations rounded to FP8 e4m3 with one scale for each token, for products on tensor cores.
#pragma once

#include "core/tensor.h"

namespace fk::cuda {

// x bf16 or f16, rows on 16 bytes and of a multiple of 16 elements; codes dense, scales f32 [rows].
void quantise_tokens(const View& x, const View& codes, const View& scales, void* stream);

}  // namespace fk::cuda
