// Attention of one new token per sequence, the keys of a sequence split over several blocks. Results may have a gate.
#pragma once

#include <string_view>

#include "backend/cuda/attention/call.h"

namespace fk::cuda {

std::string_view decode_split_refusal(const AttentionCall& call);
void attention_decode_split(const AttentionCall& call, void* stream);

}  // namespace fk::cuda
