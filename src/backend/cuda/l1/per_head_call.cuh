// What the kernels of PerHeadLinear that read packs of 16 bytes need of a call.
#pragma once

#include <string_view>

#include "backend/cuda/device/element.cuh"
#include "ops/l1/per_head_linear.h"

namespace fk::cuda {

// weight: null before weights are bound, when refuse() may be called, too.
inline std::string_view refuse_packed_heads(const PerHeadLinear::Init& init, Args args, const void* weight) {
  if (!init.weight_format.empty()) return "it multiplies by plain elements";
  if (args[0]->dtype() != DType::kBF16 && args[0]->dtype() != DType::kF16) return "it multiplies bf16 and f16";
  // Then all rows of the matrices start on 16 bytes if the first does.
  if (init.in_features % 8 != 0 || init.out_features % 8 != 0) return "sizes must be multiples of 8";
  for (const OptView& v : args)
    if (!packs_fit(v->data(), v->stride(0), 2) || !packs_fit(v->data(), v->stride(1), 2))
      return "heads must start on 16 bytes";
  if (!packs_fit(weight, 0, 2)) return "weights must start on 16 bytes";
  return {};
}

}  // namespace fk::cuda
