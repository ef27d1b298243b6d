// What generated kernels with products need beside cuda_prelude.h.
#pragma once

#include <string_view>

namespace fk {

// For nvcc: loads, the tensor cores' instruction, a launch.
extern const std::string_view kCudaProductPrelude;
// For any prelude: the skeleton of such a kernel.
extern const std::string_view kCudaProducts;

}  // namespace fk
