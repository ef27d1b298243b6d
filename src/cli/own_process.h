// Runs this program again as a child process: for measurements that need their own process.
#pragma once

#include <string>
#include <vector>

#include "core/json_fwd.h"

namespace fk {

struct OwnProcess {
  int exit_code = -1;  // negative: a signal ended it
  std::string out, err;
};

// Runs `fastkernels arguments...` until it exits. The child is ended with this program.
OwnProcess run_own_process(const std::vector<std::string>& arguments);

// The JSON object that `fastkernels arguments...` prints. Throws Error, "`what` failed: " and the message of the
// process, if it does not exit with 0.
Json json_of_own_process(const std::vector<std::string>& arguments, const std::string& what);

}  // namespace fk
