#include "sandbox/tracer.h"

#include <elf.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <string>

#include "measure/timer.h"
#include "sandbox/deadline.h"

#ifndef NT_X86_XSTATE
#define NT_X86_XSTATE 0x202
#endif

namespace fk {
namespace {

constexpr long kOptions = PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;

template <class Registers>
bool read_registers(pid_t thread, int which, Registers& registers) {
  iovec part{&registers, sizeof registers};
  return ptrace(PTRACE_GETREGSET, thread, which, &part) == 0;
}

}  // namespace

// Of a stopped thread; zeros if it cannot be read.
Tracer::Place Tracer::place_of(pid_t thread) {
  user_regs_struct registers{};
  if (!read_registers(thread, NT_PRSTATUS, registers)) return {};
#if defined(__aarch64__)
  Place place{registers.pc, registers.sp};
  std::copy_n(registers.regs + 19, place.kept.size(), place.kept.begin());  // x19 to x29
  return place;
#else
  return {registers.rip,
          registers.rsp,
          {registers.rbx, registers.rbp, registers.r12, registers.r13, registers.r14, registers.r15}};
#endif
}

// Whether a thread stopped at the trap() of the runner, and not at one of the candidate: that would end its
// sample early. The first one comes before the candidate is loaded.
bool Tracer::is_our_trap(pid_t thread) {
  const Place place = place_of(thread);
  if (!trap_place_) trap_place_ = place;
  return place == *trap_place_;
}

Tracer::~Tracer() {
  if (process_ > 0 && !ended_) {
    kill(process_, SIGKILL);
    while (!ended_) wait_for_one();
  }
}

bool Tracer::attach(pid_t process) {
  // A thread that starts meanwhile is found in the next pass, or is traced because its creator already was.
  size_t known = SIZE_MAX;
  while (known != threads_.size()) {
    known = threads_.size();
    std::error_code error;
    std::filesystem::directory_iterator task(fmt::format("/proc/{}/task", process), error), end;
    for (; !error && task != end; task.increment(error)) {
      pid_t thread = std::stoi(task->path().filename().string());
      if (threads_.contains(thread)) continue;
      if (ptrace(PTRACE_SEIZE, thread, nullptr, kOptions) != 0) {
        if (errno == ESRCH) continue;
        return false;
      }
      threads_[thread] = {};
    }
  }
  process_ = process;
  return threads_.contains(process);
}

void Tracer::go_on(pid_t thread, Thread& state) {
  if (ptrace(PTRACE_CONT, thread, nullptr, static_cast<long>(state.signal)) == 0) state = {};
}

void Tracer::let_go() {
  for (auto& [thread, state] : threads_)
    if (state.stopped) go_on(thread, state);
}

Tracer::Stop Tracer::run(int64_t deadline_ns, const std::function<void()>& at_trap) {
  if (ended_) return Stop::kEnded;
  trapped_ = freezing_ = false;
  fault_.reset();
  Deadline deadline(process_, deadline_ns);
  started_ns_ = now_ns();
  let_go();
  while (!trapped_ && !fault_ && !ended_) wait_for_one();
  trapped_ns_ = stopped_ns_;
  if (trapped_ && at_trap) at_trap();
  if (!ended_) freeze();
  if (ended_) return deadline.passed() ? Stop::kTimedOut : Stop::kEnded;
  if (fault_) return Stop::kFault;
  take_status_and_step_over();
  return Stop::kTrap;
}

void Tracer::freeze() {
  freezing_ = true;
  auto running = [&] {
    for (const auto& [thread, state] : threads_)
      if (!state.stopped) return true;
    return false;
  };
  for (auto& [thread, state] : threads_)
    // A thread that has ended but whose entry still exists cannot be stopped, and need not be.
    if (!state.stopped && ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0) state.stopped = errno == ESRCH;
  while (!ended_ && running()) wait_for_one();
}

void Tracer::wait_for_one() {
  int status = 0;
  pid_t thread = waitpid(-process_, &status, __WALL);
  stopped_ns_ = now_ns();
  if (thread > 0) return handle(thread, status);
  if (errno != EINTR) ended_ = true;  // no process is left to wait for
}

void Tracer::handle(pid_t thread, int status) {
  if (!WIFSTOPPED(status)) {
    threads_.erase(thread);
    core_of_.erase(thread);
    if (thread == process_) ended_ = true;
    return;
  }
  // A new thread is detected by its first stop, before it has done anything. Its creator's event may come at any time,
  // even after the thread has ended, so it is ignored.
  bool is_new = !threads_.contains(thread);
  Thread& state = threads_[thread];
  state = {.stopped = true};
  int event = status >> 16, signal = WSTOPSIG(status);
  if (is_new) place(thread);
  if (event == 0) {
    if (signal == SIGTRAP && thread == process_ && is_our_trap(thread)) {
      trapped_ = true;
    } else if (signal == SIGSEGV || signal == SIGBUS) {
      siginfo_t info{};
      ptrace(PTRACE_GETSIGINFO, thread, nullptr, &info);
      // If another process sent the signal, it has no address.
      fault_ = Fault{signal, info.si_code > 0 ? reinterpret_cast<uint64_t>(info.si_addr) : 0,
                     info.si_code == SEGV_ACCERR, place_of(thread).instruction};
    } else {
      if (signal == SIGILL || signal == SIGFPE || signal == SIGTRAP) signal_code_ = place_of(thread).instruction;
      state.signal = signal;
    }
  }
  if (!freezing_ && !trapped_ && !fault_) go_on(thread, state);
}

// Pins a thread to the core with the fewest threads.
void Tracer::place(pid_t thread) {
  if (cores_.empty()) return;
  auto on = [&](int core) {
    auto placed = std::ranges::count_if(core_of_, [&](const auto& entry) { return entry.second == core; });
    return placed + (core == cores_[0] ? 1 : 0);
  };
  int core = *std::ranges::min_element(cores_, {}, on);
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(core, &only);
  if (sched_setaffinity(thread, sizeof only, &only) == 0) core_of_[thread] = core;
}

std::vector<pid_t> Tracer::threads() const {
  std::vector<pid_t> all;
  for (const auto& [thread, state] : threads_) all.push_back(thread);
  return all;
}

#if defined(__x86_64__)
void Tracer::take_status_and_step_over() {
  user_regs_struct registers{};
  if (read_registers(process_, NT_PRSTATUS, registers)) trap_status_ = registers.rax;
}

std::optional<uint64_t> Tracer::float_state(pid_t thread) {
  user_fpregs_struct registers{};
  if (!read_registers(thread, NT_PRFPREG, registers)) return std::nullopt;
  // The control registers of SSE (without the exception flags) and of the x87 unit, and, if the processor has tiles,
  // whether they are in use.
  uint64_t state = (registers.mxcsr & 0xFFC0u) | uint64_t{registers.cwd} << 16;
  struct {
    char legacy[512];
    uint64_t in_use;
    char rest[16 << 10];
  } extended{};
  constexpr uint64_t kTiles = uint64_t{3} << 17;
  iovec part{&extended, sizeof extended};
  if (ptrace(PTRACE_GETREGSET, thread, NT_X86_XSTATE, &part) == 0 && part.iov_len >= 520 && (extended.in_use & kTiles))
    state |= uint64_t{1} << 32;
  return state;
}
#elif defined(__aarch64__)
void Tracer::take_status_and_step_over() {
  user_regs_struct registers{};
  iovec part{&registers, sizeof registers};
  if (!read_registers(process_, NT_PRSTATUS, registers)) return;
  trap_status_ = registers.regs[0];
  registers.pc += 4;  // the processor does not step over the trap instruction by itself
  ptrace(PTRACE_SETREGSET, process_, NT_PRSTATUS, &part);
}

std::optional<uint64_t> Tracer::float_state(pid_t thread) {
  user_fpsimd_struct registers{};
  if (!read_registers(thread, NT_PRFPREG, registers)) return std::nullopt;
  return registers.fpcr;
}
#endif

}  // namespace fk
