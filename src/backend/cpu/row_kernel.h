// The common part of kernels on rows of tokens: supported calls, addresses of rows, splitting of work.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "core/tensor.h"
#include "core/thread_pool.h"
#include "ops/refusals.h"

namespace fk {

// The minimum number of elements per thread: fewer take less time than waking it.
inline constexpr int64_t kElementsPerTask = 16384;

// Runs body(begin, end) over rows of `width` elements.
template <class Body>
void for_rows(ThreadPool& pool, int64_t rows, int64_t width, Body&& body) {
  pool.parallel_for(rows, std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(width, 1)), body);
}

// Wide rows are split into this many pieces, so that several threads can work on one row. The split depends only on the
// width: sums over pieces do not depend on the number of rows or threads.
inline int64_t pieces_per_row(int64_t width) { return std::max<int64_t>(1, width / kElementsPerTask); }
inline int64_t piece_length(int64_t width) { return (width + pieces_per_row(width) - 1) / pieces_per_row(width); }

// Runs body(row, piece, begin, end) over pieces of rows.
template <class Body>
void for_row_pieces(ThreadPool& pool, int64_t rows, int64_t width, Body&& body) {
  int64_t pieces = pieces_per_row(width), length = piece_length(width);
  for_rows(pool, rows * pieces, length, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      int64_t piece = i % pieces, begin = piece * length;
      body(i / pieces, piece, begin, std::min(begin + length, width));
    }
  });
}

// Row `r` of the outermost dimension.
template <class T>
T* row_of(const View& v, int64_t r) {
  return v.ptr<T>() + r * v.stride(0);
}

// Calls body(T{}) with the element type of a dtype that refuse_floats accepts.
template <class Body>
void with_float(DType dtype, Body&& body) {
  if (dtype == DType::kBF16)
    body(bf16{});
  else if (dtype == DType::kF16)
    body(f16{});
  else
    body(float{});
}

// The refusal of kernels that compute in f32 on tensors of bf16, f16 or f32, all of one dtype, their rows without gaps.
inline std::string_view refuse_floats(std::initializer_list<const OptView*> tensors) {
  DType dtype = (**tensors.begin())->dtype();
  if (dtype != DType::kBF16 && dtype != DType::kF16 && dtype != DType::kF32)
    return "it computes in bf16, f16 and f32 only";
  return refuse_rows(tensors);
}

}  // namespace fk
