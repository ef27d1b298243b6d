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

}  // namespace

CUtensorMap map_of_panels(const void* address, int64_t rows, int64_t columns, int box_rows) {
  CUtensorMap map{};
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t row_bytes = static_cast<cuuint64_t>(columns) * 2;
  const cuuint32_t box[2] = {64, static_cast<cuuint32_t>(box_rows)}, steps[2] = {1, 1};
  // Elements are only copied, so any type of 16 bits will do.
  const CUresult status =
      encode_function()(&map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, const_cast<void*>(address), sizes, &row_bytes, box,
                        steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS)
    throw Error("Describing a matrix of {} by {} elements to the GPU failed with code {}.", rows, columns,
                static_cast<int>(status));
  return map;
}

}  // namespace fk::cuda
