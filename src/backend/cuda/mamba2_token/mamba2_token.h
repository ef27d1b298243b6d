// One token of one sequence through all of Mamba 2 in one kernel. As in decode_megakernel, blocks are persistent and
// weights keep streaming while blocks wait for each other.
#pragma once

#include <string_view>

#include "backend/cuda/mamba2_token/call.h"

namespace fk::cuda {

// Why such a model is not supported; empty if it is. Only sizes are looked at.
std::string_view mamba2_token_refusal(const Mamba2TokenCall& call);
void mamba2_token(const Mamba2TokenCall& call, void* stream);

}  // namespace fk::cuda
