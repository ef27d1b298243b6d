// Checks of a call that implementations of several operators share, on any device. Each returns the sentence that
// refuses the call, or an empty one. Checks for one operator are in its class.
#pragma once

#include <initializer_list>
#include <string_view>

#include "ops/signature.h"

namespace fk {

// Tensors of one dtype, that of the first, their rows without gaps. Absent ones are left out.
inline std::string_view refuse_rows(std::initializer_list<const OptView*> tensors) {
  for (const OptView* v : tensors) {
    if (!*v) continue;
    if ((*v)->dtype() != (**tensors.begin())->dtype()) return "its tensors must all have one dtype";
    if (!(*v)->rows_contiguous()) return "the last dimension of its tensors must be contiguous";
  }
  return {};
}

// Two tensors between which rows are copied, of any dtype.
inline std::string_view refuse_copy(const View& from, const View& to) {
  if (from.dtype() != to.dtype()) return "it copies without converting, so both tensors must have one dtype";
  if (!from.rows_contiguous() || !to.rows_contiguous()) return "the last dimension of its tensors must be contiguous";
  return {};
}

}  // namespace fk
