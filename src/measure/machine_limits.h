// How much of the machine this process may use: memory, and cores under a container's quota.
#pragma once

#include <cstdint>
#include <string>

namespace fk {

struct MemoryInfo {
  uint64_t total_bytes = 0;      // of the machine
  uint64_t available_bytes = 0;  // that this process can still allocate without swapping, limits included
  uint64_t limit_bytes = 0;      // set by control groups; 0: none
};

// `root` is put before /proc and /sys: tests use a folder of their own.
MemoryInfo memory_info(const std::string& root = "");

// Limit of the control groups in cores, for example 1.5; 0: no limit.
double cpu_quota(const std::string& root = "");

}  // namespace fk
