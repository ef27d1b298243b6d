// Products of few rows: the weights are read once, at memory bandwidth.
#pragma once

#include <string_view>

#include "backend/cuda/matmul/problem.h"

namespace fk::cuda {

// With more rows, x would be read too often; stream_tiles.h is used for them.
inline constexpr int64_t kMostStreamedRows = 8;

// The epilogue. The gated ones take W as gate rows, then up rows, and give activation(gate) * up, so out has half of
// out_features columns.
enum class StreamEpilogue : uint8_t { kPlain, kSiluAndMul, kGeluTanhAndMul };

// Why no streaming kernel supports such a product, with any number of rows; empty if one may.
std::string_view stream_refusal(const MatmulProblem& problem, const MatmulOperands& operands, StreamEpilogue epilogue);

// Why such a product is not supported; empty if it is.
std::string_view stream_weights_refusal(const MatmulProblem& problem, const MatmulOperands& operands,
                                        StreamEpilogue epilogue);

void stream_weights(const MatmulProblem& problem, const MatmulOperands& operands, StreamEpilogue epilogue,
                    void* stream);

}  // namespace fk::cuda
