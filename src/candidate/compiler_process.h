// Runs a compiler: no shell, no standard input, a deadline that ends it and everything it started, output kept up to a
// limit.
#pragma once

#include <string>
#include <vector>

namespace fk {

struct CompilerRun {
  bool started = false;
  bool timed_out = false;
  int exit_code = -1;  // -1 where a signal ended it
  int signal = 0;
  std::string log;  // standard output and standard error as they came

  bool succeeded() const { return started && !timed_out && exit_code == 0; }
};

CompilerRun run_compiler(const std::vector<std::string>& command, int limit_ms);

}  // namespace fk
