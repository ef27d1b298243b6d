// The fastest matrix product of this CPU, for kernels that are a product of something they gather first.
#pragma once

#include "backend/cpu/matmul/matmul.h"

namespace fk {

using MatmulFunction = void (*)(const MatmulArgs&, ThreadPool&);

// For many rows of x in this dtype: f32, bf16 or f16. Each architecture has its own definition.
MatmulFunction fastest_matmul(DType dtype);
// The same for few rows, where reading the weights takes the time.
MatmulFunction fastest_dot(DType dtype);

}  // namespace fk
