// Packs experts in MXFP4 for the token kernel.
#pragma once

#include <cstdint>

namespace fk::cuda {

// `stored`: rows of `length` elements as ops/formats/mxfp4.cpp has them; `packed`: as packed_plan.h describes.
void pack_mxfp4(const void* stored, int64_t rows, int length, void* packed, void* stream);

}  // namespace fk::cuda
