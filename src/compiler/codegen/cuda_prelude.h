// What generated CUDA kernels need beside the language: element types, packs, sums over threads, a launch.
#pragma once

#include <string>
#include <string_view>

namespace fk {

// For nvcc, without any header but those it includes itself: a third of the time to compile.
extern const std::string_view kCudaPrelude;
// For any prelude.
extern const std::string_view kCudaPacks;

// Definitions of the functions of elements that a text calls.
std::string cuda_functions_in(const std::string& kernels);
std::string cuda_functions();  // all of them

}  // namespace fk
