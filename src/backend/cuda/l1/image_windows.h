// The kernels behind conv2d: the pixels of each place of its output as a row, and rows padded with zeros.
#pragma once

#include "core/tensor.h"
#include "ops/l1/conv2d.h"

namespace fk::cuda {

// rows [B * places, width]: the pixels that a place sees, [C, kernel, kernel], then zeros. x [B, C, H, W].
void image_windows(const Conv2d::Init& init, const View& x, const View& rows, void* stream);

// to [N, width]: rows of `from` [N, n], then zeros.
void padded_rows(const View& from, const View& to, void* stream);

}  // namespace fk::cuda
