// out[t][n] += bias[n], after a product that could not add it itself.
#pragma once

#include "backend/cuda/matmul/problem.h"

namespace fk::cuda {

void add_bias(const MatmulProblem& problem, const void* bias, void* out, void* stream);

}  // namespace fk::cuda
