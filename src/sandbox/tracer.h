// Tracer: controls a process from outside (ptrace). Its threads run only between run() and the next stop, both timed by
// our clock, and every fault is reported to us before the process's own handlers.
//
// The thread that attaches is the tracer of that process permanently: every call must come from the same thread.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace fk {

// Called by the traced process: stops its first thread, and with it the others. The tracer can read `status`. Called
// from one place only, at one depth of the stack: where the first trap was, all others must be. Inline, so that the
// process goes on behind it without reading a return address, which a candidate could change.
[[gnu::always_inline]] inline void trap(uint64_t status) {
#if defined(__x86_64__)
  asm volatile("int3" : : "a"(status) : "memory");
#elif defined(__aarch64__)
  register uint64_t x0 asm("x0") = status;
  asm volatile("brk #0x1fb7" : : "r"(x0) : "memory");  // a number that compilers do not use for their own traps
#endif
}

class Tracer {
 public:
  enum class Stop : uint8_t {
    kTrap,      // the first thread called trap()
    kFault,     // a thread made an invalid memory access
    kEnded,     // the process has ended
    kTimedOut,  // it was killed at the deadline
  };
  struct Fault {
    int signal = 0;
    uint64_t address = 0;
    bool mapped = false;  // the address is mapped, but the access is not allowed
    uint64_t code = 0;    // address of the instruction
  };

  ~Tracer();
  // Attaches to every thread of a process that leads its process group. False, with errno, if the system does not allow
  // it.
  bool attach(pid_t process);

  // Threads that start from now on are distributed over these cores; the process itself uses the first. They run too
  // briefly for the system to distribute them: a pool of one thread stayed on the core of its caller.
  void spread_over(std::vector<int> cores) { cores_ = std::move(cores); }

  // Resumes all threads until one of the events above, then stops them all again. `at_trap` is called between the trap
  // and the stop, while other threads may still run.
  Stop run(int64_t deadline_ns, const std::function<void()>& at_trap = {});
  // The first half of run(): only resumes. A run() after this only waits.
  void let_go();

  // Of the last run: when the first thread was resumed, when it called trap(), and when the last one had stopped.
  int64_t started_ns() const { return started_ns_; }
  int64_t trapped_ns() const { return trapped_ns_; }
  int64_t stopped_ns() const { return stopped_ns_; }
  uint64_t trap_status() const { return trap_status_; }
  const std::optional<Fault>& fault() const { return fault_; }
  // The address of the last instruction that caused another signal (SIGILL, SIGFPE, SIGTRAP), or 0.
  uint64_t signal_code() const { return signal_code_; }
  std::vector<pid_t> threads() const;

  // Floating-point mode of a stopped thread: rounding, subnormal numbers, unmasked exceptions, and whether matrix tiles
  // are configured. None if it cannot be read.
  static std::optional<uint64_t> float_state(pid_t thread);

 private:
  struct Thread {
    bool stopped = false;
    int signal = 0;  // delivered when it resumes
  };
  void go_on(pid_t thread, Thread& state);
  void handle(pid_t thread, int status);
  void wait_for_one();
  void freeze();
  void place(pid_t thread);
  void take_status_and_step_over();
  bool is_our_trap(pid_t thread);

  pid_t process_ = -1;
  std::map<pid_t, Thread> threads_;
  std::vector<int> cores_;
  std::map<pid_t, int> core_of_;  // of threads that were pinned
  bool freezing_ = false, trapped_ = false, ended_ = false;
  uint64_t trap_status_ = 0, signal_code_ = 0;
  // Registers that a function keeps are part of it: what runs behind the trap finds its objects by them.
  struct Place {
    uint64_t instruction = 0, stack = 0;
    std::array<uint64_t, 11> kept = {};
    bool operator==(const Place&) const = default;
  };
  static Place place_of(pid_t thread);
  std::optional<Place> trap_place_;  // of the first trap
  std::optional<Fault> fault_;
  int64_t started_ns_ = 0, trapped_ns_ = 0, stopped_ns_ = 0;
};

}  // namespace fk
