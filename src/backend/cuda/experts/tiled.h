// A simple kernel for products of experts that no other kernel supports: odd sizes, unaligned addresses, f32.
#pragma once

#include "backend/cuda/experts/call.h"

namespace fk::cuda {

// Plain products only.
void experts_tiled(const ExpertsCall& call, void* stream);

}  // namespace fk::cuda
