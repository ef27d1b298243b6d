// KeptOutput: stores what a runner's process writes to standard output and standard error, up to a limit.
#pragma once

#include <string>

namespace fk {

class KeptOutput {
 public:
  KeptOutput();
  ~KeptOutput();
  KeptOutput(const KeptOutput&) = delete;
  KeptOutput& operator=(const KeptOutput&) = delete;

  int fd() const { return fd_; }  // for the process's descriptors 1 and 2; -1 if the system could not create it
  // The text written so far, with terminal control characters escaped.
  std::string text() const;

 private:
  int fd_ = -1;
};

}  // namespace fk
