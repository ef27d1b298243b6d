// One token of one sequence through the whole model, in one kernel.
#pragma once

#include <string_view>

#include "backend/cuda/decode_megakernel/call.h"

namespace fk::cuda {

// Workspace sizes of the kernel.
struct TokenScratch {
  size_t partial_values = 0;  // floats
  size_t partial_states = 0;
  size_t arrivals = 0;    // counters
  size_t logit_sums = 0;  // and square_sums: see TokenExperts
  size_t square_sums = 0;
};

// Why this device cannot run such a model in one kernel; empty when it can. Only sizes are checked.
std::string_view decode_token_refusal(const TokenCall& call, int64_t head_size);
TokenScratch decode_token_scratch(const TokenCall& call, int64_t head_size);

void decode_token(const TokenCall& call, int64_t head_size, void* stream);

// The parts of decode_token() for models with experts.
void decode_token_with_experts(const TokenCall& call, int64_t head_size, void* stream);
// And for models with quantised weights.
void decode_token_in_fp8(const TokenCall& call, int64_t head_size, void* stream);
void decode_token_in_int4(const TokenCall& call, int64_t head_size, void* stream);
void decode_token_with_packed_experts(const TokenCall& call, int64_t head_size, void* stream);

}  // namespace fk::cuda
