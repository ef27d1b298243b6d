// Rows of a result that are computed element by element: a thread for each pack.
#pragma once

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/l1/packs.cuh"

namespace fk::cuda {

inline constexpr int kMapThreads = 256;

// Function has compute(row, i): elements i .. i + N - 1 of a row.
template <int N, class Function>
__global__ void __launch_bounds__(kMapThreads)
    map_rows_kernel(const Function function, int64_t width, unsigned pieces) {
  let_next_start();
  wait_for_previous();
  const int64_t i = (blockIdx.x % pieces * static_cast<int64_t>(kMapThreads) + threadIdx.x) * N;
  if (i < width) function.compute(blockIdx.x / pieces, i);
}

// For all rows of `out` [T, D], whose width is a multiple of N.
template <int N, class Function>
void map_rows(std::string_view name, const Function& function, const View& out, void* stream) {
  if (out.numel() == 0) return;
  const unsigned pieces = blocks_for(out.size(1), kMapThreads * N);
  launch(name, map_rows_kernel<N, Function>, static_cast<unsigned>(out.size(0)) * pieces, kMapThreads, 0, stream,
         function, out.size(1), pieces);
}

// Rows of a matrix, by address and distance.
template <class T>
struct RowsOf {
  T* at;
  int64_t stride;

  __device__ __forceinline__ T* row(int64_t r) const { return at + r * stride; }
};

template <class T>
RowsOf<T> rows_of(const View& v) {
  return {static_cast<T*>(v.data()), v.stride(0)};
}

}  // namespace fk::cuda
