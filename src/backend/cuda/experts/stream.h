// Products of few rows with the matrices of their experts: limited by the bandwidth of the weights.
#pragma once

#include "backend/cuda/experts/call.h"

namespace fk::cuda {

// Supports any number of rows, but reads a matrix again for every 16 rows of its expert.
std::string_view stream_experts_refusal(const ExpertsCall& call);
void stream_experts(const ExpertsCall& call, void* stream);

}  // namespace fk::cuda
