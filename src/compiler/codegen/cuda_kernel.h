// The CUDA text of kernels that compute several calls at once: a block for each row, or for a piece of one.
//
// Every thread keeps packs of neighbouring elements in registers. Results that other threads read are in shared memory.
// All loads that do not depend on other results are issued first, those of weights before the kernel before has ended.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/region_source.h"

namespace fk {

// What the kernel of a region is launched by; the result is a cudaError_t. `aligned`: addresses, and strides in all
// dimensions but the last, are multiples of 16 bytes. `dependent`: it may start before the kernel before has ended.
using CudaRegionFunction = int (*)(const RegionArray* arrays, int64_t rows, int aligned, int dependent, void* stream);

// Shared memory of a block.
inline constexpr int64_t kMostSharedBytes = 48 * 1024;

// Why there is no such kernel; empty: there is. `updated`: as in RegionText.
std::string cuda_refusal(const LoopProgram& loops, const std::map<std::string, std::string>& updated = {});

// The kernel and its launcher without their name and comment: equal kernels have equal texts.
std::string cuda_region_body(const RegionText& region);

// One source with all of them. `prelude`: what it needs of the device; empty: that of CUDA.
std::string cuda_region_source(const std::vector<RegionText>& regions, const std::string& prelude = {});

// Kernels with another prelude or other functions are other kernels.
std::string cuda_functions_version();
std::string cuda_products_version();   // the same of what only kernels with products need
std::string cuda_attention_version();  // and of what only those with attention need

}  // namespace fk
