// Tracer: holds a process from outside (ptrace). All its threads run only between run() and the stop that ends it, both
// by our clock, and every fault reaches us before any handler of its own.
//
// Who attaches is the tracer of that process for good: every call has to come from the same thread.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace fk {

// For the traced process: stops its first thread, and with it the others. `status` is shown to the tracer.
void trap(uint64_t status);

class Tracer {
 public:
  enum class Stop : uint8_t {
    kTrap,      // the first thread called trap()
    kFault,     // a thread touched memory that it may not touch
    kEnded,     // the process is gone
    kTimedOut,  // it was killed at the deadline
  };
  struct Fault {
    int signal = 0;
    uint64_t address = 0;
    bool mapped = false;  // there is memory at the address, but not for this
    uint64_t code = 0;    // the instruction
  };

  ~Tracer();
  // To every thread of a process that leads its process group. False, with errno, where the system does not allow it.
  bool attach(pid_t process);

  // Threads that start from here on are spread over these cores, of which the process itself has the first. They run
  // for too short a time at once for the system to spread them, which left a pool of one thread on the core of its
  // caller.
  void spread_over(std::vector<int> cores) { cores_ = std::move(cores); }

  // Lets all threads go on until one of the above, then stops them all again.
  Stop run(int64_t deadline_ns);
  // The first half of it: a run() after this only waits.
  void let_go();

  // Of the last run: when the first thread was let go, and when the last one had stopped.
  int64_t started_ns() const { return started_ns_; }
  int64_t stopped_ns() const { return stopped_ns_; }
  uint64_t trap_status() const { return trap_status_; }
  const std::optional<Fault>& fault() const { return fault_; }
  // The instruction at which the last other signal came that a wrong instruction causes (SIGILL, SIGFPE, SIGTRAP), or
  // 0.
  uint64_t signal_code() const { return signal_code_; }
  std::vector<pid_t> threads() const;

  // How a stopped thread computes: rounding, subnormal numbers, exceptions that are not masked, and whether it has
  // matrix tiles set up. None where it cannot be read.
  static std::optional<uint64_t> float_state(pid_t thread);

 private:
  struct Thread {
    bool stopped = false;
    int signal = 0;  // to be delivered when it goes on
  };
  void go_on(pid_t thread, Thread& state);
  void handle(pid_t thread, int status);
  void wait_for_one();
  void freeze();
  void place(pid_t thread);
  void take_status_and_step_over();

  pid_t process_ = -1;
  std::map<pid_t, Thread> threads_;
  std::vector<int> cores_;
  std::map<pid_t, int> core_of_;  // of threads that were placed
  bool freezing_ = false, trapped_ = false, ended_ = false;
  uint64_t trap_status_ = 0, signal_code_ = 0;
  std::optional<Fault> fault_;
  int64_t started_ns_ = 0, stopped_ns_ = 0;
};

}  // namespace fk
