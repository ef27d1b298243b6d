// Trials in a process of their own, for devices whose libraries do not survive fork(): the program is started again and
// gets what it shall try in a file. It prints a line when it begins with a kernel and one with the result. A kernel
// that crashes, hangs or breaks the device ends that process; another one goes on with the next kernel.
#pragma once

#include <string>
#include <vector>

#include "compiler/plan/region_trial.h"

namespace fk {

struct TrialRequest {
  const FoundRegion* found = nullptr;
  std::string key;      // of its kernel
  std::string library;  // that the kernel is in
};

// `command`: program and arguments, to which the path of the request is added; empty: in this process. `begin` is told
// the number of each request when its trial begins. Results in the order of the requests. Throws Error where no process
// can be started.
std::vector<TrialResult> try_kernels(const GraphBody& flat, const std::vector<TrialRequest>& requests,
                                     const TrialOptions& options, const std::vector<std::string>& command,
                                     const std::function<void(size_t)>& begin = {});

// In the process that was started: tries what the file says and prints to standard output.
void serve_trials(const std::string& path);

}  // namespace fk
