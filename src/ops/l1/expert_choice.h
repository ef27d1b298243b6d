// A check that operators on experts share.
#pragma once

#include <cstdint>

#include "core/error.h"

namespace fk {

// Throws Error where a token cannot have so many experts.
inline void check_top_k(int64_t num_experts, int64_t top_k) {
  if (top_k < 1 || top_k > num_experts)
    throw Error("A token cannot have {} of {} experts; choose top_k from 1 to num_experts.", top_k, num_experts);
}

}  // namespace fk
