#include "backend/cuda/device/tensor_map.h"

#include <cuda_runtime.h>

#include "backend/cuda/device/status.h"

namespace fk::cuda {
namespace {

// Looked up at run time, so that the program starts on machines without a driver.
decltype(cuTensorMapEncodeTiled)* encode_function() {
  static auto* const function = [] {
    constexpr unsigned kVersion = 12000;
    void* address = nullptr;
    cudaDriverEntryPointQueryResult found{};
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &address, kVersion, cudaEnableDefault, &found),
          "Looking for a function of the driver");
    if (address == nullptr || found != cudaDriverEntryPointSuccess)
      throw Error("The NVIDIA driver has no cuTensorMapEncodeTiled; install a newer one.");
    return reinterpret_cast<decltype(cuTensorMapEncodeTiled)*>(address);
  }();
  return function;
}

// Strides are in elements; that of the innermost dimension is 1.
template <cuuint32_t kRank>
CUtensorMap map_of(const void* address, const int64_t (&sizes)[kRank], const int64_t (&strides)[kRank - 1],
                   const int (&box)[kRank]) {
  CUtensorMap map{};
  cuuint64_t global[kRank], bytes[kRank - 1];
  cuuint32_t boxes[kRank], steps[kRank];
  for (cuuint32_t i = 0; i < kRank; ++i) {
    global[i] = static_cast<cuuint64_t>(sizes[i]);
    boxes[i] = static_cast<cuuint32_t>(box[i]);
    steps[i] = 1;
    if (i > 0) bytes[i - 1] = static_cast<cuuint64_t>(strides[i - 1]) * 2;
  }
  // Elements are only copied, so any type of 16 bits will do.
  const CUresult status =
      encode_function()(&map, CU_TENSOR_MAP_DATA_TYPE_UINT16, kRank, const_cast<void*>(address), global, bytes, boxes,
                        steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS)
    throw Error("Describing a tensor of {} by {} elements to the GPU failed with code {}.", sizes[kRank - 1], sizes[0],
                static_cast<int>(status));
  return map;
}

}  // namespace

CUtensorMap map_of_panels(const void* address, int64_t rows, int64_t columns, int box_rows) {
  return map_of<2>(address, {columns, rows}, {columns}, {64, box_rows});
}

CUtensorMap map_of_heads(const HeadTensor& rows, int box_heads, int box_tokens) {
  return map_of<3>(rows.address, {rows.head_size, rows.heads, rows.tokens}, {rows.head_stride, rows.token_stride},
                   {64, box_heads, box_tokens});
}

}  // namespace fk::cuda
