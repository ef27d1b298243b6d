// Runs a compiler in a sandbox: no shell, no standard input, no network, no files but those named, a time limit for it
// and everything it started, limited output.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "candidate/walls.h"

namespace fk {

struct CompilerRun {
  bool started = false;
  bool timed_out = false;
  int exit_code = -1;  // -1 where a signal ended it
  int signal = 0;
  std::string log;                      // standard output and standard error, in order
  std::vector<Protection> protections;  // which protections were active

  bool succeeded() const { return started && !timed_out && exit_code == 0; }
};

struct CompilerWalls {
  std::vector<std::string> readable;  // files and folders beyond the system's, to read and to run (compiler_walls.h)
  std::string work_folder;            // the only one that can be written; temporary files go there
};

// Without a sandbox: for tools that read no untrusted files, a profiler for instance.
CompilerRun run_compiler(const std::vector<std::string>& command, int limit_ms,
                         const std::optional<CompilerWalls>& walls = std::nullopt);

}  // namespace fk
