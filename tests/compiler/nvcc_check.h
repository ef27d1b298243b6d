// Whether nvcc compiles a text, for both architectures in one run: the code of the host is the same, and nothing of it
// is run, so that none of it need be fast.
#pragma once

#include <string>

#include "candidate/compile.h"

namespace fk {

inline CompileResult compiled_for_both(const std::string& path) {
  CompileOptions options{.cxxflags = {"-O0", "-gencode=arch=compute_80,code=sm_80", "-Ofc=max"},
                         .limit_ms = 600'000,
                         .cuda_arch = "90a",
                         .without_operator = true};
  CompileResult built = compile_candidate({nullptr, path}, options);
  if (!built.failure) return built;
  options.cxxflags.pop_back();  // nvcc before 12.8 does not know it; large kernels then take twice as long
  return compile_candidate({nullptr, path}, options);
}

}  // namespace fk
