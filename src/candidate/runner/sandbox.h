// The walls around a runner. Each is put up if this system can; what could not be put up is said, never assumed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "candidate/runner/seccomp_program.h"

namespace fk {

struct Protection {
  std::string name;  // "landlock"
  bool on = false;
  std::string why;  // where it is off
};

// How many of the walls stand. A GPU's driver may not work behind all of them: what it works behind is found out once
// (device_walls.h), and what has to stay down is said like anything else that is off.
enum class Walls : uint8_t { kAll, kNoPidNamespace, kNoNamespaces, kNoSeccomp, kNone };
inline constexpr int kWalls = 5;

// User, pid, network, ipc, mount and host name namespaces for the processes forked after this, and an empty tmpfs over
// `private_tmp` that vanishes with them. Call while single-threaded.
std::vector<Protection> enter_namespaces(const std::string& private_tmp, Walls walls = Walls::kAll);

struct SandboxLimits {
  size_t private_memory_bytes = size_t{8} << 30;
  std::vector<std::string> readable;  // files beyond the system's libraries
  std::string private_tmp;            // the only folder that can be written
  bool drives_gpu = false;            // its device files stay open to it
  Walls walls = Walls::kAll;
};

// For the process itself, for good: resource limits, no new privileges, Landlock. Threads, memory, reading system
// libraries and the open channel still work; other files do not.
std::vector<Protection> restrict_self(const SandboxLimits& limits);

// Then, just before foreign code is loaded: seccomp. New processes, network, tracing and changes to the mapping of
// `ours` (loaded_memory.h, which has to be asked before restrict_self) end the process.
Protection restrict_system_calls(const SandboxLimits& limits, const std::vector<AddressRange>& ours);

}  // namespace fk
