// Copies of what a checkpoint stores in another layout than the parameter has (Stored in ops/param.h). All views are
// contiguous and on the CPU.
#pragma once

#include "core/tensor.h"
#include "core/thread_pool.h"

namespace fk {

// from [E, K, N] to [E, N, K], converted to its dtype.
void copy_transposed(const View& from, const View& to, ThreadPool& pool);

// Elements u8 [E, N, G, 16], two to a byte in order, the first in the low half, and exponents u8 [E, N, G] of their
// scales, to u8 [E, N, G * 17] in the weight format mxfp4.
void copy_mxfp4(const View& elements, const View& scales, const View& to, ThreadPool& pool);

}  // namespace fk
