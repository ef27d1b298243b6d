// Turns an exception of a command into one sentence on standard error and an exit code.
#pragma once

#include <functional>
#include <string_view>

namespace fk {

enum ExitCode { kOk = 0, kFailure = 1, kBadFlags = 2 };

// Prints the sentence and returns the code.
int fail(ExitCode code, std::string_view sentence);

// Runs `command` and returns its code, or that of its exception.
int exit_code_of(const std::function<int()>& command);

}  // namespace fk
