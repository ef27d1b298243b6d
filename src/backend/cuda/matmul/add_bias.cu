#include "backend/cuda/matmul/add_bias.h"

#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/launch.cuh"

namespace fk::cuda {
namespace {

template <class T, class Out>
__global__ void add_bias_rows(const T* bias, Out* out, int64_t columns, int64_t stride) {
  wait_for_previous();
  let_next_start();
  const int64_t n = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (n >= columns) return;
  Out& element = out[blockIdx.y * stride + n];
  element = from_float<Out>(to_float(element) + to_float(bias[n]));
}

}  // namespace

void add_bias(const MatmulProblem& p, const void* bias, void* out, void* stream) {
  constexpr int kThreads = 256;
  with_float_type(p.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_float_type(p.out_dtype, [&](auto out_type) {
      using Out = typename decltype(out_type)::type;
      launch("add_bias_rows", add_bias_rows<T, Out>,
             dim3(blocks_for(p.out_features, kThreads), static_cast<unsigned>(p.rows)), kThreads, 0, stream,
             static_cast<const T*>(bias), static_cast<Out*>(out), p.out_features, p.out_stride);
    });
  });
}

}  // namespace fk::cuda
