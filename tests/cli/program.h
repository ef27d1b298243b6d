// Runs the built fastkernels as a child and keeps what it printed.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace fk {

struct Outcome {
  int exit_code = -1;  // 128 + signal where a signal ended it
  std::string out;
  std::string err;
};

// `out_file` replaces standard output where it is not negative. `interrupt`: Ctrl-C once the program listens for it.
Outcome run_program(const std::vector<std::string>& arguments, int out_file = -1, bool interrupt = false);

// Ctrl-C as soon as `when` says so.
Outcome run_and_interrupt(const std::vector<std::string>& arguments, const std::function<bool()>& when);

// With standard error on a terminal; `err` is what the terminal received.
Outcome run_program_on_terminal(const std::vector<std::string>& arguments);

}  // namespace fk
