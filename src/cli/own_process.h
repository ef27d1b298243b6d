// Runs this program again as a child process: for measurements that need their own process.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/json_fwd.h"
#include "core/undo_at_end.h"

namespace fk {

struct OwnProcess {
  int exit_code = -1;  // negative: a signal ended it
  std::string out, err;
};

// Runs `fastkernels arguments...` until it exits. The child is ended with this program, also where that is killed.
// The thread that starts it must wait for it: for Linux that thread is the parent.
OwnProcess run_own_process(const std::vector<std::string>& arguments);

// The JSON object that `fastkernels arguments...` prints. Throws Error, "`what` failed: " and the message of the
// process, if it does not exit with 0.
Json json_of_own_process(const std::vector<std::string>& arguments, const std::string& what);

// A process that runs while this program goes on.
class StartedProcess {
 public:
  explicit StartedProcess(const std::vector<std::string>& arguments);
  ~StartedProcess();  // kills it where it has not ended
  StartedProcess(const StartedProcess&) = delete;
  StartedProcess& operator=(const StartedProcess&) = delete;

  std::string out() const;  // what it has printed so far
  std::string err() const;
  bool ended();
  void send(int signal);
  OwnProcess wait();  // until it ends

 private:
  int out_ = -1, err_ = -1;
  pid_t child_ = -1;
  int status_ = 0;
  UndoAtEnd undo_;
};

// `fastkernels serve` with these arguments and --port=0, in a process of its own.
class OwnServer {
 public:
  // Returns when it listens. Throws Error, "`what` failed: " and its last words, where it ends instead.
  OwnServer(const std::vector<std::string>& arguments, const std::string& what);

  const std::string& url() const { return url_; }
  // Ends it as Ctrl-C does, and waits.
  void stop();

 private:
  StartedProcess process_;
  std::string url_;
};

}  // namespace fk
