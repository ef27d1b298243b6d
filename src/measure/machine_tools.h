// Compilers and GPUs of this machine; none is required.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

struct CompilerInfo {
  std::string name;     // "g++"
  std::string path;     // as found in PATH
  std::string version;  // the version line it prints; empty if it fails
};

struct GpuInfo {
  std::string name;
  uint64_t memory_bytes = 0;  // 0: unknown
  std::string driver;         // empty: unknown, as below
  std::string compute_capability;
};

std::vector<CompilerInfo> compilers_on_path();  // searches g++, clang++ and nvcc
std::vector<GpuInfo> nvidia_gpus();

// One GPU per line of `nvidia-smi --query-gpu=name,memory.total,driver_version,compute_cap
// --format=csv,noheader,nounits`.
std::vector<GpuInfo> parse_nvidia_smi(std::string_view csv);

}  // namespace fk
