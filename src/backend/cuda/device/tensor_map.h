// Descriptions of matrices in device memory for the copy engine of Hopper (TMA).
#pragma once

#include <cuda.h>

#include <cstdint>

namespace fk::cuda {

// A matrix of 16-bit elements without gaps between rows, copied as boxes of `box_rows` rows and 64 columns in the
// layout that wgmma.cuh describes. What lies outside the matrix is copied as zeros. `address` is on 16 bytes and
// `columns` a multiple of 8.
CUtensorMap map_of_panels(const void* address, int64_t rows, int64_t columns, int box_rows);

// 16-bit elements [tokens, heads, head_size], so many elements from token to token and from head to head. A box has 64
// elements of `box_heads` heads of `box_tokens` tokens, as rows of a panel, heads faster than tokens. What lies outside
// becomes zeros. Addresses of all heads are on 16 bytes.
struct HeadTensor {
  const void* address = nullptr;
  int64_t tokens = 0, heads = 0, head_size = 0;
  int64_t token_stride = 0, head_stride = 0;
};
CUtensorMap map_of_heads(const HeadTensor& rows, int box_heads, int box_tokens);

}  // namespace fk::cuda
