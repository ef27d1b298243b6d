// Products nobody else takes: odd sizes, odd addresses, f32 beside them.
#pragma once

#include "backend/cuda/matmul/problem.h"

namespace fk::cuda {

void matmul_tiled(const MatmulProblem& problem, const MatmulOperands& operands, void* stream);

}  // namespace fk::cuda
