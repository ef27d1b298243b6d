// The products of wgmma.h by clusters of two blocks, which share what they read of W.
#pragma once

#include "backend/cuda/experts/call.h"

namespace fk::cuda {

// Whether there is such a kernel for the call, and enough pairs for each expert.
bool clusters_are_faster(const ExpertsCall& call);
void experts_wgmma_clusters(const ExpertsCall& call, void* stream);

}  // namespace fk::cuda
