// Copies rows unchanged, selected by an index or one to one.
#pragma once

#include "core/tensor.h"

namespace fk::cuda {

// to[r] = from[index[r]], or from[r] without an index; zeros where `from` has no such row. Both of rank 2 and one
// dtype, rows contiguous; index i64.
struct CopyRows {
  View from;
  OptView index;
  View to;
};

void copy_rows(const CopyRows& call, void* stream);

}  // namespace fk::cuda
