// What generated kernels with attention need beside cuda_prelude.h and the tensor cores' instruction of
// cuda_product_prelude.h.
#pragma once

#include <string_view>

namespace fk {

// For nvcc.
extern const std::string_view kCudaAttentionPrelude;
// For any prelude: the skeleton of such a kernel.
extern const std::string_view kCudaAttention;

}  // namespace fk
