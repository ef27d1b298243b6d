// ProcessState: what a call must leave unchanged besides memory: signal handlers, each thread's floating-point mode and
// cores, limits, filters of system calls, and the code that was loaded before the candidate.
#pragma once

#include <sys/types.h>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "sandbox/tracer.h"

namespace fk {

struct ProcessState {
  uint64_t caught = 0;                    // signals with a handler, the first in bit 0
  uint64_t ignored = 0;                   // ignored signals
  std::string filters;                    // number of seccomp filters
  std::string limits;                     // resource limits
  std::string code;                       // mappings of program text from files, with their permissions
  std::map<pid_t, std::string> cores;     // by thread
  std::map<pid_t, uint64_t> float_state;  // by thread
  int64_t threads = 0;                    // as counted by the kernel
  int64_t switches = 0;  // involuntary ones of all threads so far; this and peak_kib change and are never compared
  int64_t peak_kib = 0;
  int64_t own_kib = 0;  // memory that it shares with nobody, now; never compared either
};

// Reads the state of a stopped process. `thorough` also reads limits and mappings, which takes ten times as long.
ProcessState read_process_state(pid_t process, const Tracer& tracer, bool thorough);

// A sentence about the first difference from `before`. Threads that are new since `before` must be like its first
// thread.
std::optional<std::string> changed_state(const ProcessState& before, const ProcessState& after);

}  // namespace fk
