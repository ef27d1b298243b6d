// Deadline: kills a process at a given time, since waiting for a traced process has no timeout.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace fk {

class Deadline {
 public:
  // In ns of now_ns(), with a precision of some hundredths of a second.
  Deadline(pid_t process, int64_t deadline_ns);
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

  bool passed() const;  // true if the process was killed

 private:
  friend class DeadlineThread;
  pid_t process_;
  int64_t deadline_ns_;
  bool passed_ = false;
};

}  // namespace fk
