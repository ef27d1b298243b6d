#include "compiler/plan/named_faults.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>

namespace fk {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};

// A handler may neither allocate nor wait, so the sentence is written beforehand, into memory that is always there.
char step_text[1024];
std::atomic<size_t> text_bytes{0};

extern "C" void name_step(int number) {
  const int error = errno;
  // Kernels run on several threads, which may crash together: the first one speaks.
  if (const size_t bytes = text_bytes.exchange(0); bytes > 0) {
    ssize_t ignored = write(STDERR_FILENO, step_text, bytes);
    static_cast<void>(ignored);
  }
  errno = error;
  // The default action, once this returns.
  std::signal(number, SIG_DFL);
  raise(number);
}

}  // namespace

void NamedFaults::install() {
  struct sigaction action = {};
  action.sa_handler = name_step;
  sigemptyset(&action.sa_mask);
  for (int number : kSignals) sigaction(number, &action, nullptr);
}

NamedFaults::NamedFaults(const std::string& sentence) {
  const std::string line = fmt::format("fastkernels: error: {}\n", sentence);
  const size_t bytes = std::min(line.size(), sizeof step_text);
  std::memcpy(step_text, line.data(), bytes);
  text_bytes = bytes;
}

NamedFaults::~NamedFaults() { text_bytes = 0; }

}  // namespace fk
