// Runs one row of a suite in a process of its own and keeps what is known of its end: exit code or signal, the stage it
// had reached, its last words and its peak memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/json.h"

namespace fk {

// Begins a line on standard error that names what the process does from then on.
inline constexpr const char* kStagePrefix = "fastkernels-stage: ";

struct WatchedProcess {
  std::string program;                 // a path, or a name that PATH finds
  std::vector<std::string> arguments;  // without the program's name
  double limit_seconds = 0;            // 0: none
  std::function<void(const std::string& stage)> on_stage = {};
  std::function<void()> on_poll = {};  // some times a second, while it runs
};

struct ProcessEnd {
  int exit_code = 0;  // where no signal ended it
  int signal = 0;
  bool timed_out = false;          // and therefore ended by us
  bool printed_too_much = false;   // likewise
  bool out_of_memory = false;      // by its own words, or by the kernel
  std::string out, err;            // `err` in UTF-8, without the lines of stages
  std::string stage;               // the last one; empty before the first
  uint64_t peak_memory_bytes = 0;  // resident
  double seconds = 0;

  bool good() const { return exit_code == 0 && signal == 0 && !printed_too_much; }
  std::string last_words() const;  // one line
  // "SIGKILL ended it while loading the model", and its last words. Empty where it is good.
  std::string sentence() const;
  Json to_json() const;  // of a failure
};

// The program is not there, or may not be run.
class NotStarted : public Error {
 public:
  using Error::Error;
};

// The process and its children are ended with this program. Throws NotStarted.
ProcessEnd run_watched(const WatchedProcess& process);

// In a process that run_watched() started: ends it as soon as its parent ends, even by SIGKILL.
void end_with_process(int64_t parent);

// Whether these last words say that memory was exhausted.
bool says_out_of_memory(const std::string& err);

}  // namespace fk
