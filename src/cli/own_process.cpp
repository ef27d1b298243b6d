#include "cli/own_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "cli/watched_process.h"
#include "core/environment_variable.h"
#include "core/error.h"
#include "core/json.h"

extern char** environ;

namespace fk {
namespace {

// Tells a child the process that started it. A child that is left alone when this program is killed would go on
// computing, and a server would never end.
constexpr const char* kParentVariable = "FASTKERNELS_PARENT_PROCESS";

// Before main, so that it holds whatever the verb. The variable goes no further: processes that the child starts have
// another parent.
const bool g_ends_with_parent = [] {
  const std::string parent = environment_variable(kParentVariable);
  if (parent.empty()) return false;
  unsetenv(kParentVariable);
  end_with_process(std::strtoll(parent.c_str(), nullptr, 10));
  return true;
}();

// The variables of this program, and that one.
std::vector<std::string> environment_of_child() {
  std::vector<std::string> all = {fmt::format("{}={}", kParentVariable, getpid())};
  for (char** one = environ; *one != nullptr; ++one) all.emplace_back(*one);
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

// Reads an unnamed temporary file.
std::string content(int file) {
  std::string text(static_cast<size_t>(std::max<off_t>(lseek(file, 0, SEEK_END), 0)), '\0');
  size_t done = 0;
  while (done < text.size()) {
    ssize_t got = pread(file, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

// "fastkernels: error: <sentence>", its last line that is no warning: those say nothing about why it ended.
std::string last_line(std::string text) {
  for (;;) {
    while (!text.empty() && text.back() == '\n') text.pop_back();
    const size_t begin = text.rfind('\n') + 1;
    std::string line = text.substr(begin);
    if (line.find("warning:") == line.npos) return line;
    text.resize(begin);
  }
}

// A candidate may print too, before or after the result.
std::string object_in(const std::string& text) {
  size_t begin = text.find("{\n"), end = text.rfind("\n}\n");
  return begin == text.npos || end == text.npos || end < begin ? text : text.substr(begin, end + 2 - begin);
}

std::string failure_words(const OwnProcess& process) {
  std::string words = last_line(process.err);
  if (process.exit_code < 0)
    return fmt::format("signal {} ended it{}{}", strsignal(-process.exit_code),
                       words.empty() ? "" : "; it printed: ", words);
  return words.empty() ? fmt::format("it ended with code {} and printed no error", process.exit_code) : words;
}

}  // namespace

Json json_of_own_process(const std::vector<std::string>& arguments, const std::string& what) {
  OwnProcess process = run_own_process(arguments);
  if (process.exit_code != 0) throw Error("{} failed: {}", what, failure_words(process));
  return parse_json(object_in(process.out), "what a run printed");
}

OwnProcess run_own_process(const std::vector<std::string>& arguments) { return StartedProcess(arguments).wait(); }

StartedProcess::StartedProcess(const std::vector<std::string>& arguments)
    : out_(memfd_create("stdout", MFD_CLOEXEC)), err_(memfd_create("stderr", MFD_CLOEXEC)) {
  if (out_ < 0 || err_ < 0) throw Error("The system gave no memory for a process's output ({}).", strerror(errno));
  std::vector<std::string> words = {"fastkernels"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv = pointers_to(words);
  std::vector<std::string> variables = environment_of_child();
  std::vector<char*> envp = pointers_to(variables);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, out_, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, err_, STDERR_FILENO);
  // This program blocks the signals that its thread waits for; unblock them, since the child blocks them itself.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  int failed = 0;
  undo_.make(
      [&] {
        failed = posix_spawn(&child_, "/proc/self/exe", &files, &attributes, argv.data(), envp.data());
        if (failed != 0) child_ = -1;
      },
      [this] {
        if (child_ > 0) kill(child_, SIGKILL);
      });
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (failed == 0) return;
  close(out_);
  close(err_);
  throw Error("A process to measure in could not be started ({}).", strerror(failed));
}

StartedProcess::~StartedProcess() {
  if (child_ > 0 && !ended()) {
    kill(child_, SIGKILL);
    wait();
  }
  for (int file : {out_, err_})
    if (file >= 0) close(file);
}

std::string StartedProcess::out() const { return content(out_); }
std::string StartedProcess::err() const { return content(err_); }

bool StartedProcess::ended() {
  if (child_ > 0 && waitpid(child_, &status_, WNOHANG) == child_) {
    undo_.forget();
    child_ = -1;
  }
  return child_ < 0;
}

void StartedProcess::send(int signal) {
  if (!ended()) kill(child_, signal);
}

OwnProcess StartedProcess::wait() {
  if (child_ > 0) {
    while (waitpid(child_, &status_, 0) < 0 && errno == EINTR) {
    }
    undo_.forget();
    child_ = -1;
  }
  return {WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_), out(), err()};
}

OwnServer::OwnServer(const std::vector<std::string>& arguments, const std::string& what)
    : process_([&] {
        std::vector<std::string> all = {"serve", "--port=0", "--quiet", "--no-access-log"};
        all.insert(all.end(), arguments.begin(), arguments.end());
        return all;
      }()) {
  // It prints its address as one line.
  while (url_.empty()) {
    const bool over = process_.ended();
    const std::string printed = process_.out();
    if (size_t begin = printed.find("http://"), end = printed.find('\n', begin); end != printed.npos)
      url_ = printed.substr(begin, end - begin);
    else if (over)
      throw Error("{} failed: {}", what, failure_words(process_.wait()));
    else
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void OwnServer::stop() {
  process_.send(SIGTERM);
  process_.wait();
}

}  // namespace fk
