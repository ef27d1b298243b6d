// Toolchain: the compiler of a candidate and the flags it gets, for the device the candidate is written for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "candidate/compile.h"
#include "core/device.h"

namespace fk {

struct Toolchain {
  std::vector<std::string> compiler;  // program and words that belong to it
  std::vector<std::string> flags;     // what decides the result; recorded
  std::vector<std::string> checks;    // errors at build time rather than at load; the result is the same without them
  std::string target;                 // target of the code: this CPU, or the GPU's architecture
  std::optional<Failure> missing;     // then nothing else counts
};

Toolchain toolchain_for(DeviceKind device, const CompileOptions& options);

// $NVCC, nvcc on the PATH, or that of $CUDA_HOME or /usr/local/cuda, as words; empty where there is none.
std::vector<std::string> find_nvcc();

// "sm_90", "90a" or "9.0" as nvcc's number with the features of that chip, "90a"; empty if it is not an architecture.
std::string cuda_architecture(std::string_view text);

}  // namespace fk
