// Which way of cutting a few-row product is quickest on this device: tried once for every shape, kept on disk.
#pragma once

#include <cstddef>
#include <functional>

#include "backend/cuda/matmul/problem.h"
#include "backend/cuda/matmul/stream_weights.h"

namespace fk::cuda {

// The cut to use, 0 to cuts - 1. The first call for a shape launches each several times through `launch`, with the L2
// emptied before, as it is when a model comes back to these weights; while work is recorded it takes the first instead.
int stream_cut(const MatmulProblem& problem, StreamEpilogue epilogue, size_t cuts, void* stream,
               const std::function<void(int)>& launch);

}  // namespace fk::cuda
