// Which calls the kernels of this folder take: the sentences they refuse the others with.
#pragma once

#include <initializer_list>
#include <string_view>

#include "ops/signature.h"

namespace fk::cuda {

// The refusal of kernels that compute in f32 on tensors of bf16, f16 or f32, all of one dtype, their rows without gaps.
inline std::string_view refuse_floats(std::initializer_list<const OptView*> tensors) {
  DType dtype = (**tensors.begin())->dtype();
  if (dtype != DType::kBF16 && dtype != DType::kF16 && dtype != DType::kF32)
    return "it computes in bf16, f16 and f32 only";
  for (const OptView* v : tensors) {
    if (!*v) continue;
    if ((*v)->dtype() != dtype) return "its tensors must all have one dtype";
    if (!(*v)->rows_contiguous()) return "the last dimension of its tensors must be contiguous";
  }
  return {};
}

// Two tensors that rows are copied between, whatever the dtype.
inline std::string_view refuse_copy(const View& from, const View& to) {
  if (from.dtype() != to.dtype()) return "it copies without converting, so both tensors must have one dtype";
  if (!from.rows_contiguous() || !to.rows_contiguous()) return "the last dimension of its tensors must be contiguous";
  return {};
}

}  // namespace fk::cuda
