// SigmoidMul on CUDA, for kernels of blocks that end with it.
#pragma once

#include "core/tensor.h"

namespace fk::cuda {

// Of [T, H, D], as the operator; out may be x.
void sigmoid_mul(const View& x, const View& gate, const View& out, void* stream);

}  // namespace fk::cuda
