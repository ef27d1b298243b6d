// Runs this program again as a child process: for measurements that need their own process.
#pragma once

#include <string>
#include <vector>

namespace fk {

struct OwnProcess {
  int exit_code = -1;  // negative: a signal ended it
  std::string out, err;
};

// Runs `fastkernels arguments...` until it exits. The child is ended with this program.
OwnProcess run_own_process(const std::vector<std::string>& arguments);

}  // namespace fk
