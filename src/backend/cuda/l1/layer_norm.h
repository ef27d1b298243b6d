// The layer norm of rows or of the sum of two, for fused blocks.
#pragma once

#include "core/tensor.h"

namespace fk::cuda {

// Whether rows like those of x [T, D] are supported; weight and bias start on 16 bytes, too.
bool can_norm_rows(const View& x);
// out = norm of x, or of x + residual, which is not kept.
void norm_of_rows(const View& x, const OptView& residual, const View& weight, const View& bias, double eps,
                  const View& out, void* stream);

}  // namespace fk::cuda
