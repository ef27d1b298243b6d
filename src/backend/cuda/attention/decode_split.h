// Attention of one new token per sequence, the keys of a sequence split over several blocks.
#pragma once

#include <string_view>

#include "backend/cuda/attention/call.h"
#include "core/memory.h"

namespace fk::cuda {

// How a call is cut: known from its shapes alone, so that a recorded call stays right while sequences grow.
struct DecodeSplit {
  int splits = 1;
  int keys_per_split = 0;
};
DecodeSplit decode_split(const AttentionCall& call);

std::string_view decode_split_refusal(const AttentionCall& call);

// Bytes of scratch a call needs. `arrivals` counts, one per sequence and kv head, must be zero before the first call,
// which leaves them zero.
size_t decode_scratch_bytes(const AttentionCall& call);
void attention_decode_split(const AttentionCall& call, void* scratch, int32_t* arrivals, void* stream);

}  // namespace fk::cuda
