// Checks of calls for the kernels of this folder, with the sentences for refused calls.
#pragma once

#include <initializer_list>
#include <string_view>

#include "ops/refusals.h"

namespace fk::cuda {

// The refusal of kernels that compute in f32 on tensors of bf16, f16 or f32, all of one dtype, their rows without gaps.
inline std::string_view refuse_floats(std::initializer_list<const OptView*> tensors) {
  DType dtype = (**tensors.begin())->dtype();
  if (dtype != DType::kBF16 && dtype != DType::kF16 && dtype != DType::kF32)
    return "it computes in bf16, f16 and f32 only";
  return refuse_rows(tensors);
}

}  // namespace fk::cuda
