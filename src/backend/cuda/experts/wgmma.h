// Products of many rows with the matrices of their experts, on Hopper's tensor cores.
#pragma once

#include "backend/cuda/experts/call.h"

namespace fk::cuda {

// Up to so many tokens, stream_experts is faster.
inline constexpr int kMostStreamedTokens = 16;

// A call without sorted pairs is a product of all rows of x with one matrix.
//
// Why such a product is not supported, or better streamed; empty otherwise.
std::string_view experts_wgmma_refusal(const ExpertsCall& call);
void experts_wgmma(const ExpertsCall& call, void* stream);

}  // namespace fk::cuda
