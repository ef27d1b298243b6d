// Attention of many queries per sequence on tensor cores.
#pragma once

#include <string_view>

#include "backend/cuda/attention/call.h"

namespace fk::cuda {

std::string_view prefill_mma_refusal(const AttentionCall& call);
void attention_prefill_mma(const AttentionCall& call, void* stream);

}  // namespace fk::cuda
