// Runs a compiler behind walls: no shell, no standard input, no network, no files but those named, a deadline that ends
// it and everything it started, output kept up to a limit.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "candidate/runner/sandbox.h"

namespace fk {

struct CompilerRun {
  bool started = false;
  bool timed_out = false;
  int exit_code = -1;  // -1 where a signal ended it
  int signal = 0;
  std::string log;                      // standard output and standard error as they came
  std::vector<Protection> protections;  // which walls stood

  bool succeeded() const { return started && !timed_out && exit_code == 0; }
};

struct CompilerWalls {
  std::vector<std::string> readable;  // files and folders beyond the system's, to read and to run (compiler_walls.h)
  std::string work_folder;            // the only one that can be written; temporary files go there
};

// Without walls: a tool that is given nothing foreign to read, a profiler for instance.
CompilerRun run_compiler(const std::vector<std::string>& command, int limit_ms,
                         const std::optional<CompilerWalls>& walls = std::nullopt);

}  // namespace fk
