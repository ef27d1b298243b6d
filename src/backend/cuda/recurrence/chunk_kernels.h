// The kernels of the chunk form over some chunks of a call.
#pragma once

#include <cstdint>

#include "ops/l1/linear_recurrence.h"

namespace fk::cuda {

inline constexpr int64_t kChunkTokens = 64;

bool chunks_fit(const LinearRecurrence& call);
int64_t chunk_scratch_floats(const LinearRecurrence& call);  // of one chunk of all heads
// `scratch` has room for `count` chunks, and starts on 16 bytes.
void run_chunk_kernels(const LinearRecurrence& call, float* scratch, int64_t first, int64_t count, void* stream);

}  // namespace fk::cuda
