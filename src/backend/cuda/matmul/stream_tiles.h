// Products of 9 to 16 rows, too many for stream_weights, but still limited by the bandwidth of the weights.
#pragma once

#include <string_view>

#include "backend/cuda/matmul/problem.h"
#include "backend/cuda/matmul/stream_weights.h"

namespace fk::cuda {

// Beyond, cuBLASLt is faster (docs/results/h200.md).
inline constexpr int64_t kMostTiledRows = 16;

// Why such a product is not supported; empty if it is.
std::string_view stream_tiles_refusal(const MatmulProblem& problem, const MatmulOperands& operands,
                                      StreamEpilogue epilogue);

void stream_tiles(const MatmulProblem& problem, const MatmulOperands& operands, StreamEpilogue epilogue, void* stream);

}  // namespace fk::cuda
