// A simple kernel for products that no other kernel supports: odd sizes, unaligned addresses, f32.
#pragma once

#include "backend/cuda/matmul/problem.h"

namespace fk::cuda {

void matmul_tiled(const MatmulProblem& problem, const MatmulOperands& operands, void* stream);

}  // namespace fk::cuda
