// One token of one sequence through all of Mamba in one kernel. As in decode_megakernel, blocks are persistent and
// weights keep streaming while blocks wait for each other.
#pragma once

#include <string_view>

#include "backend/cuda/mamba_token/call.h"

namespace fk::cuda {

// Why such a model is not supported; empty if it is. Only sizes are looked at.
std::string_view mamba_token_refusal(const MambaTokenCall& call);
void mamba_token(const MambaTokenCall& call, void* stream);

}  // namespace fk::cuda
