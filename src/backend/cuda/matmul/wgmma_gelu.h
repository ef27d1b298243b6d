// Products of many rows whose results go through the exact gelu, on Hopper: out = gelu(x W^T + b). cuBLASLt has only
// the tanh form, so it needs a pass over the results afterwards.
#pragma once

#include <string_view>

#include "backend/cuda/matmul/problem.h"

namespace fk::cuda {

// Why such a product is not supported; empty if it is.
std::string_view wgmma_gelu_refusal(const MatmulProblem& problem, const MatmulOperands& operands);
void multiply_wgmma_gelu(const MatmulProblem& problem, const MatmulOperands& operands, void* stream);

}  // namespace fk::cuda
