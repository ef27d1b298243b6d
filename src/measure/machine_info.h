// MachineInfo: the machine that a result was measured on; `doctor` shows it too.
#pragma once

#include <string>
#include <vector>

#include "core/json_fwd.h"
#include "measure/machine_cpu.h"
#include "measure/machine_limits.h"
#include "measure/machine_tools.h"

namespace fk {

struct MachineInfo {
  std::string architecture;  // "x86_64", "aarch64"
  CpuName cpu;
  CpuLayout layout;
  int usable_cores = 0;  // from this process's affinity
  double cpu_quota = 0;  // in cores; 0: no limit
  std::vector<CpuCache> caches;
  std::vector<std::string> instructions;
  MemoryInfo memory;
  std::string os;          // "Debian GNU/Linux 12 (bookworm)"
  std::string kernel;      // "Linux 6.1.0"
  std::string hypervisor;  // empty: none detected
  std::string container;   // "docker", ...; empty: none detected
  std::vector<CompilerInfo> compilers;
  std::vector<GpuInfo> gpus;
};

MachineInfo machine_info();

Json to_json(const MachineInfo& info);  // unknown values are null

}  // namespace fk
