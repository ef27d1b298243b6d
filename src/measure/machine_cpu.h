// The processor: its name, its cores and its caches.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

struct CpuName {
  std::string model;   // "AMD EPYC 9654", "Neoverse-V2"; empty if unknown
  std::string vendor;  // "GenuineIntel", "ARM"
};

struct CpuLayout {
  int logical = 0;  // hardware threads that are online
  int cores = 0;    // 0 if unknown, as below
  int sockets = 0;
  int numa_nodes = 0;
};

struct CpuCache {
  int level = 0;
  std::string kind;  // "data", "instruction", "unified"
  uint64_t size_bytes = 0;
  int shared_by = 0;  // hardware threads; 0 if unknown
};

// From the text of /proc/cpuinfo, of either architecture.
CpuName cpu_name(std::string_view cpuinfo);

// `root` is put before /sys: tests use a folder of their own.
CpuLayout cpu_layout(const std::string& root = "");
std::vector<CpuCache> cpu_caches(const std::string& root = "");

// "KVM", "VMware", ...; empty on bare metal and if the CPU does not report it.
std::string hypervisor_name();

// "0-3,8" -> 5. Text that is not such a list gives 0.
int count_cpu_list(std::string_view list);

}  // namespace fk
