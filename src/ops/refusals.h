// What implementations of several operators ask of a call, whatever the device. Each is the sentence that refuses it,
// or empty; what one operator asks of its own arguments stands in its class.
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

// Two tensors that rows are copied between, whatever the dtype.
inline std::string_view refuse_copy(const View& from, const View& to) {
  if (from.dtype() != to.dtype()) return "it copies without converting, so both tensors must have one dtype";
  if (!from.rows_contiguous() || !to.rows_contiguous()) return "the last dimension of its tensors must be contiguous";
  return {};
}

}  // namespace fk
