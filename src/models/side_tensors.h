// Tensors that quantised checkpoints hold beside the codes and scales of their matrices.
#pragma once

#include <string>
#include <string_view>

#include "models/checkpoint.h"

namespace fk {

// One that no product needs: shapes, and scales of activations and of the KV cache, which we do not round.
bool is_side_tensor(std::string_view name);

// Throws Error where the list of groups of a GPTQ matrix (g_idx) is not in order: columns that were sorted before they
// were grouped (desc_act).
void check_side_tensor(const Checkpoint& checkpoint, const std::string& name);

}  // namespace fk
