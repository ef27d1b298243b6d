// KeptOutput: what a runner's process writes to standard output and standard error, kept up to a limit.
#pragma once

#include <string>

namespace fk {

class KeptOutput {
 public:
  KeptOutput();
  ~KeptOutput();
  KeptOutput(const KeptOutput&) = delete;
  KeptOutput& operator=(const KeptOutput&) = delete;

  int fd() const { return fd_; }  // to be the process's descriptors 1 and 2; -1 where the system gave none
  // What was written so far, with everything that would steer a terminal made visible.
  std::string text() const;

 private:
  int fd_ = -1;
};

}  // namespace fk
