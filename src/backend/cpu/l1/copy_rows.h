// Addresses of rows, for kernels that only copy whole rows of bytes.
#pragma once

#include <cstring>
#include <string_view>

#include "backend/cpu/row_kernel.h"

namespace fk {

inline std::byte* row_bytes(const View& v, int64_t r) {
  return static_cast<std::byte*>(v.data()) + r * v.stride(0) * static_cast<int64_t>(dtype_size(v.dtype()));
}

}  // namespace fk
