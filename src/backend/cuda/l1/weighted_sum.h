// The kernel behind moe_sum.
#pragma once

#include "core/tensor.h"

namespace fk::cuda {

// out[t] = sum over j of weights[t][j] * x[t][j]: x [T, k, D] and out [T, D] of one dtype, weights f32 [T, k], rows of
// all contiguous.
void weighted_sum(const View& x, const View& weights, const View& out, void* stream);

}  // namespace fk::cuda
