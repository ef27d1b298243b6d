#include "cli/watched_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "core/printable.h"
#include "core/undo_at_end.h"
#include "measure/timer.h"
#include "models/unicode.h"

extern char** environ;

namespace fk {
namespace {

constexpr off_t kMostPrinted = off_t{32} << 20;  // bytes; output is kept in memory

off_t size_of(int file) {
  struct stat info {};
  return fstat(file, &info) == 0 ? info.st_size : 0;
}

// At most the first kMostPrinted bytes.
std::string text_of(int file) {
  std::string text(static_cast<size_t>(std::min(size_of(file), kMostPrinted)), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = pread(file, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

// Takes the stages out of a text of standard error; the last one is returned.
std::string take_stages(std::string& err) {
  constexpr size_t kLongestStage = 200;
  std::string stage, rest;
  for (size_t at = 0; at < err.size();) {
    size_t end = std::min(err.find('\n', at), err.size());
    std::string line = err.substr(at, end - at);
    if (line.starts_with(kStagePrefix))
      stage = printable(line.substr(std::strlen(kStagePrefix), kLongestStage));
    else
      rest += line + (end < err.size() ? "\n" : "");
    at = end + 1;
  }
  err = std::move(rest);
  return stage;
}

// Processes that the kernel ended because memory was exhausted, since it started. 0 where it does not count them.
int64_t kernel_kills() {
  std::ifstream in("/proc/vmstat");
  std::string key;
  for (int64_t value = 0; in >> key >> value;)
    if (key == "oom_kill") return value;
  return 0;
}

// From `at` on, or a little later: not in the middle of a character of UTF-8.
std::string tail_from(const std::string& text, size_t at) {
  while (at < text.size() && (text[at] & 0xc0) == 0x80) ++at;
  return text.substr(at);
}

// What Linux calls the signal.
std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  return name == nullptr ? fmt::format("signal {}", number) : fmt::format("SIG{}", name);
}

struct Pipes {
  int out = memfd_create("stdout", MFD_CLOEXEC), err = memfd_create("stderr", MFD_CLOEXEC);
  Pipes() {
    if (out < 0 || err < 0) throw Error("The system gave no memory for a process's output ({}).", strerror(errno));
  }
  ~Pipes() {
    close(out);
    close(err);
  }
  Pipes(const Pipes&) = delete;
  Pipes& operator=(const Pipes&) = delete;
};

// Starts it in a process group of its own, so that what it starts can be ended with it. Returns an error number.
int spawn(const WatchedProcess& process, const Pipes& pipes, pid_t& child) {
  std::vector<std::string> words = {process.program};
  words.insert(words.end(), process.arguments.begin(), process.arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, pipes.out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, pipes.err, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // This program blocks the signals that its thread waits for.
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  const int failed = posix_spawnp(&child, process.program.c_str(), &files, &attributes, argv.data(), environ);
  if (failed != 0) child = -1;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return failed;
}

}  // namespace

bool says_out_of_memory(const std::string& err) {
  std::string lower = err;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  // Of the system and of Python; then those of our own messages (core/memory.cpp, measure/memory_room.cpp).
  constexpr const char* kWords[] = {"out of memory",      "outofmemoryerror",  "memoryerror",
                                    "std::bad_alloc",     "allocate memory",   "gib of memory free",
                                    "gib of memory left", "mib of memory; use"};
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [&](const char* words) { return lower.find(words) != std::string::npos; });
}

void end_with_process(int64_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) raise(SIGKILL);  // it has ended already
}

// The last line that is not empty: a program's error message, or the exception below a Python traceback. Progress bars
// end their lines with a carriage return.
std::string ProcessEnd::last_words() const {
  constexpr size_t kMost = 400;
  constexpr const char* kBlank = "\n\r ";
  std::string text = err.substr(0, err.find_last_not_of(kBlank) + 1);
  text = text.substr(text.find_last_of("\n\r") + 1);
  text = text.substr(std::min(text.find_first_not_of(' '), text.size()));
  if (text.starts_with("fastkernels: ")) text = text.substr(std::strlen("fastkernels: "));
  text = printable(text);
  if (text.size() <= kMost) return text;
  return text.substr(0, text.size() - tail_from(text, kMost).size()) + "…";
}

std::string ProcessEnd::sentence() const {
  if (good()) return "";
  const std::string when = stage.empty() ? "before it began" : "while " + stage;
  const std::string words = last_words();
  if (timed_out) return fmt::format("stopped after {:.0f} s {}", seconds, when);
  if (printed_too_much) return fmt::format("stopped since it printed more than {} MiB {}", kMostPrinted >> 20, when);
  std::string text = signal != 0 ? fmt::format("{} ended it {}", signal_name(signal), when)
                                 : fmt::format("exit code {} {}", exit_code, when);
  if (out_of_memory) text = "out of memory: " + text;
  return words.empty() ? text : fmt::format("{}: {}", text, words);
}

Json ProcessEnd::to_json() const {
  constexpr size_t kTail = 4000;
  Json json = {{"exit_code", nullptr},
               {"signal", nullptr},
               {"timed_out", timed_out},
               {"printed_too_much", printed_too_much},
               {"out_of_memory", out_of_memory},
               {"stage", stage},
               {"stderr_tail", err.size() > kTail ? tail_from(err, err.size() - kTail) : err},
               {"peak_memory_bytes", peak_memory_bytes},
               {"seconds", seconds}};
  if (signal != 0)
    json["signal"] = signal_name(signal);
  else
    json["exit_code"] = exit_code;
  return json;
}

ProcessEnd run_watched(const WatchedProcess& process) {
  Pipes pipes;
  const int64_t kills = kernel_kills();
  Stopwatch watch;
  pid_t child = -1;
  int failed = 0;
  UndoAtEnd group;
  group.make([&] { failed = spawn(process, pipes, child); },
             [&] {
               if (child > 0) kill(-child, SIGKILL);
             });
  if (failed != 0) {
    group.forget();
    throw NotStarted("{} could not be started ({}).", process.program, strerror(failed));
  }
  ProcessEnd end;
  std::string shown;
  off_t read = 0;  // of its standard error
  rusage usage{};
  int status = 0;
  auto too_much = [&] { return std::max(size_of(pipes.out), size_of(pipes.err)) > kMostPrinted; };
  auto pause = std::chrono::milliseconds(2);
  for (auto next_poll = watch.elapsed_s();;) {
    siginfo_t ended{};
    if (waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == child)
      break;
    if (process.limit_seconds > 0 && watch.elapsed_s() > process.limit_seconds && !end.timed_out) {
      end.timed_out = true;
      kill(-child, SIGKILL);
    }
    if (too_much()) kill(-child, SIGKILL);
    if (watch.elapsed_s() >= next_poll) {
      next_poll = watch.elapsed_s() + 0.2;
      if (const off_t size = size_of(pipes.err); size != read && process.on_stage) {
        read = size;
        std::string err = text_of(pipes.err);
        if (std::string stage = take_stages(err); stage != shown) process.on_stage(shown = stage);
      }
      if (process.on_poll) process.on_poll();
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(50));
  }
  // What it started and left behind would disturb the next row. Its number is not free before it is waited for.
  kill(-child, SIGKILL);
  while (wait4(child, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  group.forget();
  end.seconds = watch.elapsed_s();
  end.printed_too_much = too_much();
  if (WIFSIGNALED(status))
    end.signal = WTERMSIG(status);
  else
    end.exit_code = WEXITSTATUS(status);
  end.peak_memory_bytes = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
  end.out = text_of(pipes.out);
  end.err = unicode::repair_utf8(text_of(pipes.err));  // it is stored, and others read it
  end.stage = take_stages(end.err);
  end.out_of_memory = !end.good() && !end.timed_out && !end.printed_too_much &&
                      (says_out_of_memory(end.err) || (end.signal == SIGKILL && kernel_kills() > kills));
  return end;
}

}  // namespace fk
