// Autotunes the split of a few-row product: once for every shape alone, and once in a step (core/tuned_choice.h),
// stored on disk.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "backend/cuda/matmul/problem.h"
#include "backend/cuda/matmul/stream_weights.h"

namespace fk::cuda {

// The split to use, 0 to cuts - 1. The first call for a shape times each split through `launch`, with an empty L2, as
// in a real model; while a graph is recorded it uses the first instead. `format`: of the weights, if they are
// quantised.
int stream_cut(const MatmulProblem& problem, StreamEpilogue epilogue, size_t cuts, void* stream,
               const std::function<void(int)>& launch, std::string_view format = {});

}  // namespace fk::cuda
