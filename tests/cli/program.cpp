#include "tests/cli/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <utility>

#include "core/json.h"

namespace fk {

// An unnamed file: the child can print any amount without a reader.
class ProgramOutput {
 public:
  ProgramOutput() : file_(std::tmpfile(), &std::fclose) {
    if (!file_) throw std::runtime_error("no temporary file");
  }
  int number() const { return fileno(file_.get()); }
  // Reads beside the child's place in the file, which may still be writing.
  std::string text() const {
    std::string all;
    char block[4096];
    for (ssize_t got; (got = pread(number(), block, sizeof block, static_cast<off_t>(all.size()))) > 0;)
      all.append(block, static_cast<size_t>(got));
    return all;
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

namespace {

constexpr const char* kProgram = FK_BINARY_DIR "/fastkernels";

pid_t start(const Arguments& arguments, int out, int err) {
  std::vector<char*> words = {const_cast<char*>(kProgram)};
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  pid_t child = fork();
  if (child < 0) throw std::runtime_error("no fork");
  if (child > 0) return child;
  setenv("FASTKERNELS_HOME", FK_BINARY_DIR "/test-home", 0);  // where a test is run by hand
  setenv("FASTKERNELS_CONFIG", "", 0);                        // no test depends on its user's defaults
  unsetenv("MLFLOW_TRACKING_URI");
  signal(SIGINT, SIG_DFL);  // ignored in what a shell starts in the background
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  execv(kProgram, words.data());
  _exit(127);
}

int wait_for(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Linux shows the signals a process handles as a mask in hexadecimal.
bool handles(pid_t child, int signal_number) {
  std::ifstream status("/proc/" + std::to_string(child) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("SigCgt:", 0) == 0) return (std::stoull(line.substr(7), nullptr, 16) >> (signal_number - 1)) & 1;
  return false;
}

}  // namespace

bool comes_true(const std::function<bool()>& holds) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  for (useconds_t pause = 1000; !holds(); pause = std::min(2 * pause, useconds_t{20'000})) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    usleep(pause);
  }
  return true;
}

Outcome run_program(const Arguments& arguments, int out_file, bool interrupt) {
  ProgramOutput out, err;
  pid_t child = start(arguments, out_file >= 0 ? out_file : out.number(), err.number());
  if (interrupt) {
    comes_true([&] { return handles(child, SIGINT); });
    kill(child, SIGINT);
  }
  int code = wait_for(child);
  return {code, out.text(), err.text()};
}

Outcome run_and_interrupt(const Arguments& arguments, const std::function<bool()>& when, int signal_number) {
  ProgramOutput out, err;
  pid_t child = start(arguments, out.number(), err.number());
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!when() && std::chrono::steady_clock::now() < give_up) usleep(1000);
  auto sent = std::chrono::steady_clock::now();
  kill(child, signal_number);
  int code = wait_for(child);
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - sent;
  return {code, out.text(), err.text(), took.count()};
}

Json run_json(Arguments arguments) {
  arguments.push_back("--json");
  const Outcome outcome = run_program(arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return parse_json(outcome.out, "output");
}

Outcome run_program_on_terminal(const Arguments& arguments, unsigned short columns, bool out_too) {
  ProgramOutput out;
  int master = posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) throw std::runtime_error("no terminal");
  int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
  if (terminal < 0) throw std::runtime_error("no terminal");
  winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  if (ioctl(terminal, TIOCSWINSZ, &size) != 0) throw std::runtime_error("no size of a terminal");
  pid_t child = start(arguments, out_too ? terminal : out.number(), terminal);
  close(terminal);
  std::string err;
  char block[4096];
  for (ssize_t got; (got = read(master, block, sizeof block)) > 0;) err.append(block, static_cast<size_t>(got));
  close(master);
  int code = wait_for(child);
  return {code, out.text(), err};
}

struct RunningProgram::Files {
  ProgramOutput out, err;
};

RunningProgram::RunningProgram(const Arguments& arguments)
    : files_(std::make_unique<Files>()), child_(start(arguments, files_->out.number(), files_->err.number())) {}

RunningProgram::~RunningProgram() {
  if (child_ > 0) end(SIGKILL);
}

std::string RunningProgram::out() const { return files_->out.text(); }
std::string RunningProgram::err() const { return files_->err.text(); }

bool RunningProgram::prints(const std::string& text, size_t times) const {
  auto found = [&] {
    std::string all = out();
    size_t count = 0;
    for (size_t at = all.find(text); at != std::string::npos; at = all.find(text, at + 1)) ++count;
    return count >= times;
  };
  comes_true([&] { return found() || ended(); });
  return found();
}

bool RunningProgram::ended() const {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child_;
}

Outcome RunningProgram::end(int signal_number) {
  auto sent = std::chrono::steady_clock::now();
  kill(child_, signal_number);
  int code = wait_for(std::exchange(child_, 0));
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - sent;
  return {code, out(), err(), took.count()};
}

}  // namespace fk
