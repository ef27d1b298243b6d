// The layer norm of a sum, for fused blocks.
#pragma once

#include "core/tensor.h"

namespace fk::cuda {

// Whether rows like those of x [T, D] are supported; weight and bias start on 16 bytes, too.
bool can_norm_sum(const View& x);
// out = norm of (x + residual), which is not kept.
void norm_of_sum(const View& x, const View& residual, const View& weight, const View& bias, double eps, const View& out,
                 void* stream);

}  // namespace fk::cuda
