// Products of some rows, more than stream_weights is quick for: bounded by reading the weights as well.
#pragma once

#include <string_view>

#include "backend/cuda/matmul/problem.h"
#include "backend/cuda/matmul/stream_weights.h"

namespace fk::cuda {

// Beyond, cuBLASLt is quicker (docs/results/h200.md).
inline constexpr int64_t kMostTiledRows = 16;

// Why such a product is not taken; empty when it is.
std::string_view stream_tiles_refusal(const MatmulProblem& problem, const MatmulOperands& operands,
                                      StreamEpilogue epilogue);

void stream_tiles(const MatmulProblem& problem, const MatmulOperands& operands, StreamEpilogue epilogue, void* stream);

}  // namespace fk::cuda
