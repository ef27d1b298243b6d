#include "cli/interrupt.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <thread>
#include <utility>

#include "core/undo_at_end.h"

namespace fk {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

std::atomic<int> g_exit_code = 130;  // of Ctrl-C, as in shells

volatile sig_atomic_t g_interrupted = 0;
int g_pipe[2] = {-1, -1};

// Held by a verb that has a guard, except while it is interruptible. Never destroyed: the thread outlives main.
std::mutex& verb_at_work() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
std::function<int()>& finish_of_verb() {
  static auto* finish = new std::function<int()>;
  return *finish;
}

void tell(int signal) {
  g_interrupted = 1;
  int before = errno;
  auto number = static_cast<unsigned char>(signal);
  static_cast<void>(!write(g_pipe[1], &number, 1));
  errno = before;
}

void wait_for_signal() {
  unsigned char number = 0;
  ssize_t got = 0;
  while ((got = read(g_pipe[0], &number, 1)) != 1)
    if (got == 0 || errno != EINTR) return;
  verb_at_work().lock();
  undo_everything();
  if (finish_of_verb()) _exit(finish_of_verb()());
  if (number == SIGINT) _exit(g_exit_code);
  signal(number, SIG_DFL);
  kill(getpid(), number);
}

}  // namespace

void end_cleanly_on_signals() {
  if (pipe2(g_pipe, O_CLOEXEC) != 0) return;
  // The thread blocks all signals, so that they are delivered to the other threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread(wait_for_signal).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  struct sigaction action {};
  action.sa_handler = tell;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  for (int signal : kSignals) {
    struct sigaction was {};
    sigaction(signal, nullptr, &was);
    if (was.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);  // nohup
  }
}

InterruptGuard::InterruptGuard(std::function<int()> finish) {
  verb_at_work().lock();
  finish_of_verb() = std::move(finish);
}

InterruptGuard::~InterruptGuard() {
  finish_of_verb() = nullptr;
  verb_at_work().unlock();
}

InterruptGuard::Open::Open() { verb_at_work().unlock(); }
InterruptGuard::Open::~Open() { verb_at_work().lock(); }

void control_c_ends_with(int exit_code) { g_exit_code = exit_code; }

bool interrupted() { return g_interrupted != 0; }

}  // namespace fk
