#include "backend/cuda/l1/gelu_rows.h"

#include "backend/cuda/l1/activations.cuh"
#include "core/check.h"

namespace fk::cuda {
namespace {

constexpr int kGeluRowsThreads = 256;
constexpr int kPacks = 4;  // that a thread has in flight

// The end comes first: the product before has written it last, so it may still be in the L2, and the product after
// begins with what is written last here.
template <class T>
__global__ void __launch_bounds__(kGeluRowsThreads) gelu_packs(T* values, int64_t packs) {
  constexpr int N = kPackElements<T>;
  let_next_start();
  wait_for_previous();
  const int64_t first = (gridDim.x - 1 - blockIdx.x) * static_cast<int64_t>(kGeluRowsThreads * kPacks) + threadIdx.x;
  Pack<T, N> pack[kPacks];
#pragma unroll
  for (int j = 0; j < kPacks; ++j)
    if (first + j * kGeluRowsThreads < packs) pack[j] = load_pack<T, N>(values + (first + j * kGeluRowsThreads) * N);
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    if (first + j * kGeluRowsThreads >= packs) continue;
#pragma unroll
    for (int k = 0; k < N; ++k) pack[j].at[k] = from_float<T>(GeluExact::quick(to_float(pack[j].at[k])));
    store_pack<T, N>(values + (first + j * kGeluRowsThreads) * N, pack[j]);
  }
}

template <class T>
void launch_packs(const View& x, void* stream) {
  const int64_t packs = x.numel() / kPackElements<T>;
  launch("gelu", gelu_packs<T>, blocks_for(packs, kGeluRowsThreads * kPacks), kGeluRowsThreads, 0, stream,
         static_cast<T*>(x.data()), packs);
}

}  // namespace

void gelu_in_place(const View& x, void* stream) {
  FK_CHECK(x.contiguous() && x.numel() % 8 == 0 && reinterpret_cast<uintptr_t>(x.data()) % 16 == 0);
  if (x.dtype() == DType::kBF16)
    launch_packs<__nv_bfloat16>(x, stream);
  else
    launch_packs<__half>(x, stream);
}

}  // namespace fk::cuda
