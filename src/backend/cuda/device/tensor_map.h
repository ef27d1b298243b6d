// Descriptions of matrices in device memory for the copy engine of Hopper (TMA).
#pragma once

#include <cuda.h>

#include <cstdint>

namespace fk::cuda {

// A matrix of 16-bit elements without gaps between rows, copied as boxes of `box_rows` rows and 64 columns in the
// layout that wgmma.cuh describes. What lies outside the matrix is copied as zeros. `address` is on 16 bytes and
// `columns` a multiple of 8.
CUtensorMap map_of_panels(const void* address, int64_t rows, int64_t columns, int box_rows);

}  // namespace fk::cuda
