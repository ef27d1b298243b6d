// The kernel behind moe_align.
#pragma once

#include <string_view>

#include "core/tensor.h"

namespace fk::cuda {

// Why pairs of so many experts cannot be sorted; empty if they can.
std::string_view sort_pairs_refusal(int64_t num_experts, int64_t pairs);

// As MoeAlign: topk_ids i32 [T, k]; sorted i32 [T * k] and offsets i32 [num_experts + 1], both contiguous.
void sort_pairs(const View& topk_ids, int64_t num_experts, const View& sorted, const View& offsets, void* stream);

}  // namespace fk::cuda
