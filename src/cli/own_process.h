// This program once more, in a process of its own: for measurements that must not share one.
#pragma once

#include <string>
#include <vector>

namespace fk {

struct OwnProcess {
  int exit_code = -1;  // negative: a signal ended it
  std::string out, err;
};

// Runs `fastkernels arguments...` to its end. It does not outlive this program.
OwnProcess run_own_process(const std::vector<std::string>& arguments);

}  // namespace fk
