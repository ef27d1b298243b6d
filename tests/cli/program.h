// Runs the built fastkernels as a child and keeps what it printed.
#pragma once

#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/json_fwd.h"

namespace fk {

using Arguments = std::vector<std::string>;

struct Outcome {
  int exit_code = -1;  // 128 + signal where a signal ended it
  std::string out;
  std::string err;
  double seconds_to_end = 0;  // since the signal that run_and_interrupt sent
};

// What counts as an end at once. Far more than it takes, since the machine may be busy, and far less than what hangs.
inline constexpr double kAtOnceSeconds = 10;

// Looks again and again until it holds; false where it does not within two minutes, so that no test waits for ever.
bool comes_true(const std::function<bool()>& holds);

// `out_file` replaces standard output where it is not negative. `interrupt`: Ctrl-C once the program listens for it.
Outcome run_program(const Arguments& arguments, int out_file = -1, bool interrupt = false);

// What it prints with --json. A test fails if it does not exit with 0.
Json run_json(Arguments arguments);

// Ctrl-C, or another signal, as soon as `when` says so.
Outcome run_and_interrupt(const Arguments& arguments, const std::function<bool()>& when, int signal_number = SIGINT);

// With standard error on a terminal, so many columns wide (0: it does not know); `err` is what the terminal received.
// `out_too`: standard output as well, so that `err` is all of it.
Outcome run_program_on_terminal(const Arguments& arguments, unsigned short columns = 0, bool out_too = false);

// The running program, observed while it runs. Killed at the end of the test.
class RunningProgram {
 public:
  explicit RunningProgram(const Arguments& arguments);
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  std::string out() const;
  std::string err() const;
  // Waits until standard output holds this text so often; false where the program ends before, or where it takes too long.
  bool prints(const std::string& text, size_t times = 1) const;
  bool ended() const;
  Outcome end(int signal_number = SIGINT);  // sends the signal and waits

 private:
  struct Files;
  std::unique_ptr<Files> files_;
  int child_;
};

}  // namespace fk
