// Attention of one new token of each of many sequences: the keys of all sequences are one list of work, which all
// blocks share equally. Results may have a gate.
#pragma once

#include <string_view>

#include "backend/cuda/attention/call.h"

namespace fk::cuda {

// decode_shares_preferred() is false for fewer sequences.
inline constexpr int kFewestShared = 16;

std::string_view decode_shares_refusal(const AttentionCall& call);
// True if it is the faster kernel for a call that it does not refuse. Depends only on shapes.
bool decode_shares_preferred(const AttentionCall& call);

// Floats of scratch memory for partial results.
int64_t decode_shares_scratch(const AttentionCall& call);
void attention_decode_shares(const AttentionCall& call, float* scratch, void* stream);

}  // namespace fk::cuda
