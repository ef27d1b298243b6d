// Conversion of arrays between the float types of weights, at memory bandwidth.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace fk {

constexpr bool dtype_is_weight(DType t) { return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16; }

// Both types are f32, f16 or bf16; narrowing rounds to nearest even. `from` may have any alignment, and does not
// overlap `to`.
void convert_elements(const void* from, DType from_type, void* to, DType to_type, int64_t n);

}  // namespace fk
