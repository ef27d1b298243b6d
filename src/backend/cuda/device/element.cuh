// Elements on the device: conversion to and from float, 16-byte packs, and the dtype of a view as a type.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "core/dtype.h"

namespace fk::cuda {

__device__ __forceinline__ float to_float(float v) { return v; }
__device__ __forceinline__ float to_float(__half v) { return __half2float(v); }
__device__ __forceinline__ float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }

template <class T>
__device__ __forceinline__ T from_float(float v);
template <>
__device__ __forceinline__ float from_float<float>(float v) {
  return v;
}
template <>
__device__ __forceinline__ __half from_float<__half>(float v) {
  return __float2half_rn(v);
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float v) {
  return __float2bfloat16_rn(v);
}

// N elements that are loaded and stored at once; 16 bytes is the widest access of a thread.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};

template <class T>
inline constexpr int kPackElements = 16 / static_cast<int>(sizeof(T));

// Kernels are written for packs of kPackElements<T> and for single elements; true when packs can be used: the address
// and every row start on 16 bytes.
inline bool packs_fit(const void* address, int64_t row_elements, size_t element_bytes) {
  return reinterpret_cast<uintptr_t>(address) % 16 == 0 && row_elements * static_cast<int64_t>(element_bytes) % 16 == 0;
}

template <class T>
struct Type {
  using type = T;
};

// Calls f(Type<T>{}) with the device type of a dtype; false for dtypes that kernels here do not support.
template <class F>
bool with_float_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF32:
      f(Type<float>{});
      return true;
    case DType::kF16:
      f(Type<__half>{});
      return true;
    case DType::kBF16:
      f(Type<__nv_bfloat16>{});
      return true;
    default:
      return false;
  }
}

}  // namespace fk::cuda
