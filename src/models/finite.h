// Whether a tensor of weights or logits is free of NaNs and infinities.
#pragma once

#include "core/tensor.h"

namespace fk {

// Contiguous, f32, f16 or bf16 on any device, or FP8 e4m3 on the CPU.
bool may_be_not_finite(DType dtype);
bool all_finite(const View& tensor);

}  // namespace fk
