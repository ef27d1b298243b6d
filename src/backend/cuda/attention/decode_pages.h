// Attention of one new token of each of many sequences: the pages of all sequences are one list of work, which the
// multiprocessors share equally.
#pragma once

#include <string_view>

#include "backend/cuda/attention/call.h"

namespace fk::cuda {

std::string_view decode_pages_refusal(const AttentionCall& call);
// True if it is the faster kernel for a call that it does not refuse. Depends only on shapes.
bool decode_pages_preferred(const AttentionCall& call);

// Floats of scratch memory for partial results.
int64_t decode_pages_scratch(const AttentionCall& call);
void attention_decode_pages(const AttentionCall& call, float* scratch, void* stream);

}  // namespace fk::cuda
