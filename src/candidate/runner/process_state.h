// ProcessState: what a call has to leave as it found it besides memory: signal handlers, how every thread computes, on
// which cores it runs, limits, filters of system calls, and the code that was there before the candidate.
#pragma once

#include <sys/types.h>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "candidate/runner/tracer.h"

namespace fk {

struct ProcessState {
  uint64_t caught = 0;                    // signals that have a handler, the first in bit 0
  uint64_t ignored = 0;                   // or none
  std::string filters;                    // number of seccomp filters
  std::string limits;                     // of resources
  std::string code;                       // mappings of program text from files, with their permissions
  std::map<pid_t, std::string> cores;     // by thread
  std::map<pid_t, uint64_t> float_state;  // likewise
  int64_t threads = 0;                    // by the kernel's count
  int64_t switches = 0;  // involuntary ones of all threads so far; these two change and are never compared
  int64_t peak_kib = 0;
};

// Of a stopped process. `thorough` also reads limits and mappings, which takes ten times as long.
ProcessState read_process_state(pid_t process, const Tracer& tracer, bool thorough);

// What of `before` is no longer so, as a sentence. Threads that `before` does not know must be like its first thread.
std::optional<std::string> changed_state(const ProcessState& before, const ProcessState& after);

}  // namespace fk
