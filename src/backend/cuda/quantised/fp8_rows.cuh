// Rows rounded to FP8 e4m3 with one scale for every group (ops/l1/fp8_groups.h): the part that the operators which
// produce them share. A block has a row; its warps take the groups in turn, or all of them one group that is the row.
//
// Values are computed twice, for the scale and for the codes: what they are computed from stays in the L1.
#pragma once

#include <cuda_fp8.h>

#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "core/tensor.h"
#include "ops/l1/fp8_groups.h"

namespace fk::cuda {

inline constexpr int kFp8RowThreads = 256;

struct Fp8Rows {
  uint8_t* codes;
  float* scales;
  int64_t codes_stride, scales_stride;
  int64_t width, group;  // elements of a row, of a group
};

inline Fp8Rows fp8_rows(const View& codes, const View& scales) {
  const int64_t groups = scales.size(1) > 0 ? scales.size(1) : 1;
  return {static_cast<uint8_t*>(codes.data()),
          scales.ptr<float>(),
          codes.stride(0),
          scales.stride(0),
          codes.size(1),
          codes.size(1) / groups};
}

// The scale of values up to `largest`.
__device__ __forceinline__ float fp8_scale(float largest) {
  return fmaxf(largest, static_cast<float>(kLeastGroupSize)) / static_cast<float>(kLargestFp8);
}
__device__ __forceinline__ uint8_t fp8_code(float value, float scale) {
  return __nv_cvt_float_to_fp8(value / scale, __NV_SATFINITE, __NV_E4M3);
}

// All threads of the block take part. value(i): element i of row `row`.
template <class Value>
__device__ void store_fp8_row(const Fp8Rows& out, int64_t row, float* scratch, const Value& value) {
  uint8_t* codes = out.codes + row * out.codes_stride;
  float* scales = out.scales + row * out.scales_stride;
  if (out.group == out.width) {
    float largest = 0;
    for (int64_t i = threadIdx.x; i < out.width; i += kFp8RowThreads) largest = fmaxf(largest, fabsf(value(i)));
    const float scale = fp8_scale(reduce_block<Max>(largest, scratch));
    if (threadIdx.x == 0) scales[0] = scale;
    for (int64_t i = threadIdx.x; i < out.width; i += kFp8RowThreads) codes[i] = fp8_code(value(i), scale);
    return;
  }
  const int lane = threadIdx.x % 32;
  for (int64_t g = threadIdx.x / 32; g * out.group < out.width; g += kFp8RowThreads / 32) {
    const int64_t first = g * out.group;
    float largest = 0;
    for (int64_t i = lane; i < out.group; i += 32) largest = fmaxf(largest, fabsf(value(first + i)));
    const float scale = fp8_scale(reduce_warp<Max>(largest));
    if (lane == 0) scales[g] = scale;
    for (int64_t i = lane; i < out.group; i += 32) codes[first + i] = fp8_code(value(first + i), scale);
  }
}

inline std::string_view refuse_fp8_rows(const View& x, const View& codes, const View& scales) {
  if (x.dtype() != DType::kBF16 && x.dtype() != DType::kF16 && x.dtype() != DType::kF32)
    return "it computes in bf16, f16 and f32 only";
  if (codes.dtype() != DType::kF8E4M3) return "the output is not FP8";
  if (!x.rows_contiguous() || !codes.rows_contiguous() || !scales.rows_contiguous())
    return "the last dimension of its tensors must be contiguous";
  return {};
}

}  // namespace fk::cuda
