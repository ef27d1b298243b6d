// The products of wgmma.h where rows of x lie in the order of the sorted pairs: the copy engine loads them in boxes.
#pragma once

#include "backend/cuda/experts/call.h"

namespace fk::cuda {

// A call that experts_wgmma takes, with x_stride == length and row i of x for pair i of the sorted ones. Without
// `sorted`, row i of out is likewise that of pair i.
void experts_wgmma_in_order(const ExpertsCall& call, void* stream);

// Row i of out [pairs, length] is the row of x for pair i of the sorted ones. As experts_wgmma: rows on 16 bytes.
void gather_sorted_rows(const ExpertsCall& call, void* out, void* stream);

}  // namespace fk::cuda
