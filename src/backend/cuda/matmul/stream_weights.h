// Products of few rows: the weights stream through the chip once, at the speed memory gives them.
#pragma once

#include <string_view>

#include "backend/cuda/matmul/problem.h"
#include "ops/forward_context.h"

namespace fk::cuda {

inline constexpr int64_t kMostStreamedRows = 16;

// What becomes of the sums. The gated ones take W as gate rows, then up rows, and give activation(gate) * up, so out has
// half of out_features columns.
enum class StreamEpilogue : uint8_t { kPlain, kSiluAndMul, kGeluTanhAndMul };

// Why such a product is not taken; empty when it is.
std::string_view stream_weights_refusal(const MatmulProblem& problem, const MatmulOperands& operands,
                                        StreamEpilogue epilogue);

// Has the beginning of the weights that follow on the context's trail brought into the L2 while this product ends.
void stream_weights(Context& ctx, const MatmulProblem& problem, const MatmulOperands& operands, StreamEpilogue epilogue);

}  // namespace fk::cuda
