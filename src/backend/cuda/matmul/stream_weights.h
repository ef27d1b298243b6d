// Products of few rows: the weights stream through the chip once, at the speed memory gives them.
#pragma once

#include <string_view>

#include "backend/cuda/matmul/problem.h"

namespace fk::cuda {

// Beyond, x would be read too often; stream_tiles.h goes on.
inline constexpr int64_t kMostStreamedRows = 8;

// What becomes of the sums. The gated ones take W as gate rows, then up rows, and give activation(gate) * up, so out
// has half of out_features columns.
enum class StreamEpilogue : uint8_t { kPlain, kSiluAndMul, kGeluTanhAndMul };

// Why no kernel streams the weights of such a product, however many rows it has; empty when there may be one.
std::string_view stream_refusal(const MatmulProblem& problem, const MatmulOperands& operands, StreamEpilogue epilogue);

// Why such a product is not taken; empty when it is.
std::string_view stream_weights_refusal(const MatmulProblem& problem, const MatmulOperands& operands,
                                        StreamEpilogue epilogue);

void stream_weights(const MatmulProblem& problem, const MatmulOperands& operands, StreamEpilogue epilogue,
                    void* stream);

}  // namespace fk::cuda
