// The walls around a process that runs foreign code. Each protection is used if this system supports it; a missing one
// is always reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "candidate/seccomp_program.h"

namespace fk {

struct Protection {
  std::string name;  // "landlock"
  bool on = false;
  std::string why;  // why it is off
};

// How many protections are used. A GPU's driver may not work with all of them: which ones it works with is found once
// (device_walls.h), and those left off are reported like any other.
enum class Walls : uint8_t { kAll, kNoPidNamespace, kNoNamespaces, kNoSeccomp, kNone };
inline constexpr int kWalls = 5;

// User, pid, network, ipc, mount and host name namespaces for the processes forked after this, and an empty tmpfs at
// `private_tmp` that is removed with them. Call while single-threaded.
std::vector<Protection> enter_namespaces(const std::string& private_tmp, Walls walls = Walls::kAll);

struct SandboxLimits {
  size_t private_memory_bytes = size_t{8} << 30;
  std::vector<std::string> readable;  // files besides the system's libraries
  std::string private_tmp;            // the only folder that can be written
  bool drives_gpu = false;            // it may open the GPU's device files
  Walls walls = Walls::kAll;
};

// Permanent restrictions of the calling process: resource limits, no new privileges, Landlock. Threads, memory, reading
// system libraries and the open channel still work; other files do not.
std::vector<Protection> restrict_self(const SandboxLimits& limits);

// After that, just before foreign code is loaded: seccomp. New processes, network, tracing and changes to the mapping
// of `ours` end the process. Call loaded_memory() for `ours` before restrict_self.
Protection restrict_system_calls(const SandboxLimits& limits, const std::vector<AddressRange>& ours);

}  // namespace fk
