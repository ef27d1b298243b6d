// Kernels that only move whole rows of bytes: which calls they take, and the move itself.
#pragma once

#include <cstring>
#include <string_view>

#include "backend/cpu/row_kernel.h"

namespace fk {

// Two tensors that rows are copied between, whatever the dtype.
inline std::string_view refuse_copy(const View& from, const View& to) {
  if (from.dtype() != to.dtype()) return "it copies without converting, so both tensors must have one dtype";
  if (!from.rows_contiguous() || !to.rows_contiguous()) return "the last dimension of its tensors must be contiguous";
  return {};
}

inline std::byte* row_bytes(const View& v, int64_t r) {
  return static_cast<std::byte*>(v.data()) + r * v.stride(0) * static_cast<int64_t>(dtype_size(v.dtype()));
}

}  // namespace fk
