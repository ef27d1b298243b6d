// How many numbers are added up for one output of a weight, which its random values must fit.
#pragma once

#include "core/tensor.h"

namespace fk {

// The last extent of matrices [.., out, in], and all but the first of convolutions [out, channels, height, width].
inline int64_t fan_in(const Shape& shape) { return shape.rank() == 4 ? shape.numel() / shape[0] : shape[-1]; }

}  // namespace fk
