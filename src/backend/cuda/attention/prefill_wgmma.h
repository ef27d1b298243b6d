// Attention of many queries per sequence on the tensor cores of Hopper.
#pragma once

#include <string_view>

#include "backend/cuda/attention/call.h"

namespace fk::cuda {

// Why such a call is not supported; empty if it is.
std::string_view prefill_wgmma_refusal(const AttentionCall& call);
void attention_prefill_wgmma(const AttentionCall& call, void* stream);

}  // namespace fk::cuda
