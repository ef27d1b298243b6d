// Arguments and epilogues of the kernels that stream weights.
#pragma once

#include "backend/cuda/device/element.cuh"
#include "backend/cuda/matmul/problem.h"
#include "backend/cuda/matmul/stream_weights.h"

namespace fk::cuda {

template <class T>
struct StreamPointers {
  const T* x;
  const T* weight;
  const T* bias;
  void* out;
};

struct StreamSizes {
  int tokens;
  int features;  // columns of out
  int length;    // in_features
  int64_t x_stride, out_stride;
};

template <class T>
StreamPointers<T> stream_pointers(const MatmulProblem& problem, const MatmulOperands& operands) {
  return {static_cast<const T*>(operands.x), static_cast<const T*>(operands.weight),
          problem.bias ? static_cast<const T*>(operands.bias) : nullptr, operands.out};
}

inline StreamSizes stream_sizes(const MatmulProblem& problem, StreamEpilogue epilogue) {
  const int64_t halves = epilogue == StreamEpilogue::kPlain ? 1 : 2;
  return {static_cast<int>(problem.rows), static_cast<int>(problem.out_features / halves),
          static_cast<int>(problem.in_features), problem.x_stride, problem.out_stride};
}

// Calls f.template operator()<T, Out, epilogue>() with the types and the epilogue of a product.
template <class F>
void with_stream_types(const MatmulProblem& problem, StreamEpilogue epilogue, F&& f) {
  auto typed = [&]<class T>() {
    if (epilogue == StreamEpilogue::kSiluAndMul)
      f.template operator()<T, T, StreamEpilogue::kSiluAndMul>();
    else if (epilogue == StreamEpilogue::kGeluTanhAndMul)
      f.template operator()<T, T, StreamEpilogue::kGeluTanhAndMul>();
    else if (problem.out_dtype == DType::kF32)
      f.template operator()<T, float, StreamEpilogue::kPlain>();
    else
      f.template operator()<T, T, StreamEpilogue::kPlain>();
  };
  if (problem.dtype == DType::kBF16)
    typed.template operator()<__nv_bfloat16>();
  else
    typed.template operator()<__half>();
}

__device__ __forceinline__ float silu(float v) { return v / (1 + __expf(-v)); }
// The tanh form of gelu as a sigmoid: 0.5 (1 + tanh z) = 1 / (1 + exp(-2 z)).
__device__ __forceinline__ float gelu_tanh(float v) {
  const float z = 0.7978845608028654f * (v + 0.044715f * v * v * v);
  return v / (1 + __expf(-2 * z));
}

// Column `feature` of out; sum(0) is the sum of its row of W; in a gated product sum(0) is the gate row and sum(1) the
// up row.
template <StreamEpilogue kEpilogue, class T, class Sum>
__device__ __forceinline__ float stream_result(const StreamPointers<T>& p, const StreamSizes& s, int feature,
                                               const Sum& sum) {
  float first = sum(0);
  if (p.bias != nullptr) first += to_float(p.bias[feature]);
  if constexpr (kEpilogue == StreamEpilogue::kPlain) {
    return first;
  } else {
    float up = sum(1);
    if (p.bias != nullptr) up += to_float(p.bias[feature + s.features]);
    // A separate product would be stored in T; rounding here gives the same result.
    first = to_float(from_float<T>(first));
    up = to_float(from_float<T>(up));
    return (kEpilogue == StreamEpilogue::kSiluAndMul ? silu(first) : gelu_tanh(first)) * up;
  }
}

}  // namespace fk::cuda
