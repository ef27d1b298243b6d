#include "candidate/compiler_process.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>

#include "candidate/landlock.h"
#include "core/undo_at_end.h"
#include "measure/child_output.h"

extern char** environ;

namespace fk {
namespace {

constexpr size_t kLogLimit = 256 << 10;
constexpr rlim_t kLargestFile = rlim_t{1} << 30;

// Our environment, with English messages, since they are parsed; with temporary files in the work folder; and without
// ccache, which writes to its own folder: builds are cached here already.
std::vector<std::string> compiler_environment(const std::optional<CompilerWalls>& walls) {
  std::vector<std::string> list, own = {"LC_", "LANG"};
  if (walls) own.insert(own.end(), {"TMPDIR=", "TMP=", "TEMP="});
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string_view text = *entry;
    bool ours = false;
    for (const std::string& name : own) ours = ours || text.starts_with(name);
    if (!ours) list.emplace_back(text);
  }
  list.emplace_back("LC_ALL=C");
  if (!walls) return list;
  list.emplace_back("CCACHE_DISABLE=1");
  list.push_back("TMPDIR=" + walls->work_folder);
  return list;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

// The parts of the system that a compiler needs: programs, libraries, headers, and the CPU information for
// -march=native.
void allow_system(LandlockRules& rules) {
  for (const char* path :
       {"/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/ld.so.preload",
        "/etc/alternatives", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu", "/dev/zero", "/dev/urandom"})
    rules.allow(path, LandlockRules::kRun);
  rules.allow("/dev/null", LandlockRules::kRead | LandlockRules::kWriteFile);
}

rlim_t most_memory() {
  constexpr rlim_t kMost = rlim_t{16} << 30;
  auto machine = static_cast<rlim_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
  return std::min(kMost, machine / 4 * 3);
}

// Everything between fork and exec of the child. The parent may have threads, so the child makes only system calls: all
// texts are prepared before the fork.
class Child {
 public:
  Child(const std::string& program, const std::vector<std::string>& command, const std::optional<CompilerWalls>& walls,
        int output)
      : program_(program),
        words_(command),
        environment_(compiler_environment(walls)),
        argv_(pointers_to(words_)),
        envp_(pointers_to(environment_)),
        output_(output),
        memory_(most_memory()),
        uid_map_(std::to_string(geteuid()) + " " + std::to_string(geteuid()) + " 1"),
        gid_map_(std::to_string(getegid()) + " " + std::to_string(getegid()) + " 1") {
    if (!walls) return;
    rules_.emplace();
    allow_system(*rules_);
    for (const std::string& path : walls->readable) rules_->allow(path, LandlockRules::kRun);
    // No execute permission: files written by the compiler come from the candidate.
    rules_->allow(walls->work_folder, LandlockRules::kAllButExecute);
  }

  // In `namespaces`, none if zero. The child reports errors over `report`.
  pid_t start(unsigned long namespaces, int report) {
    pid_t child = static_cast<pid_t>(syscall(SYS_clone, namespaces | SIGCHLD, 0, 0, 0, 0));
    if (child == 0) run(namespaces, report);
    return child;
  }

  enum Step : int { kMapUser, kLimits, kLandlock, kExec };
  struct Report {
    Step step;
    int error;
  };
  int landlock_error() const { return rules_ ? rules_->error() : 0; }

 private:
  static void say(int report, Step step, int error) {
    Report text{step, error};
    if (write(report, &text, sizeof text) != sizeof text) _exit(127);
  }
  static bool write_file(const char* path, std::string_view text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    if (fd >= 0) close(fd);
    return written;
  }
  static bool limit(__rlimit_resource which, rlim_t most) {
    rlimit now{};
    if (getrlimit(which, &now) != 0) return false;
    now.rlim_max = std::min(now.rlim_max, most);
    now.rlim_cur = std::min(now.rlim_cur, now.rlim_max);
    return setrlimit(which, &now) == 0;
  }

  [[noreturn]] void run(unsigned long namespaces, int report) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if ((namespaces & CLONE_NEWUSER) != 0) {
      write_file("/proc/self/setgroups", "deny");
      if (!write_file("/proc/self/uid_map", uid_map_) || !write_file("/proc/self/gid_map", gid_map_)) {
        say(report, kMapUser, errno);
        _exit(127);
      }
    } else if (namespaces != 0) {
      // Root without a user namespace keeps only the capability to read files of other users.
      for (unsigned long right = 0; right < 64; ++right)
        if (right != CAP_DAC_OVERRIDE && right != CAP_DAC_READ_SEARCH && right != CAP_FOWNER)
          prctl(PR_CAPBSET_DROP, right, 0, 0, 0);
    }
    if (rules_ && (!limit(RLIMIT_DATA, memory_) || !limit(RLIMIT_FSIZE, kLargestFile) || !limit(RLIMIT_CORE, 0)))
      say(report, kLimits, errno);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
    dup2(output_, STDOUT_FILENO);
    dup2(output_, STDERR_FILENO);
    constexpr unsigned kAtExec = 4;  // CLOSE_RANGE_CLOEXEC
    syscall(SYS_close_range, 3u, ~0u, kAtExec);
    if (rules_ && rules_->error() == 0 && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !rules_->restrict_self()))
      say(report, kLandlock, errno);
    execve(program_.c_str(), argv_.data(), envp_.data());
    say(report, kExec, errno);
    _exit(127);
  }

  std::string program_;
  std::vector<std::string> words_, environment_;
  std::vector<char*> argv_, envp_;
  std::optional<LandlockRules> rules_;  // none: no sandbox
  int output_;
  rlim_t memory_;
  std::string uid_map_, gid_map_;
};

// The child's report; its exec or its end closes the pipe.
std::vector<Child::Report> reports_from(int file) {
  std::vector<Child::Report> all;
  Child::Report one{};
  ssize_t got = 0;
  while ((got = read(file, &one, sizeof one)) == sizeof one || (got < 0 && errno == EINTR))
    if (got > 0) all.push_back(one);
  return all;
}

std::optional<int> error_in(const std::vector<Child::Report>& reports, Child::Step step) {
  for (const Child::Report& r : reports)
    if (r.step == step) return r.error;
  return std::nullopt;
}

// Namespaces to try, in order, down to none. Root needs no user namespace, and could not read files of other users
// inside one.
std::vector<unsigned long> namespaces_to_try(bool walls) {
  if (!walls) return {0};
  constexpr unsigned long kThese = CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
  if (geteuid() == 0) return {kThese, kThese | CLONE_NEWUSER, 0};
  return {kThese | CLONE_NEWUSER, 0};
}

Protection protection(std::string name, int error) {
  return {std::move(name), error == 0, error == 0 ? "" : strerror(error)};
}

void wait_without_reaping(pid_t child) {
  siginfo_t info;
  while (waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
}

void end_group(pid_t child) {
  kill(-child, SIGKILL);
  kill(child, SIGKILL);  // the end of the namespace's first process ends all others
}

}  // namespace

CompilerRun run_compiler(const std::vector<std::string>& command, int limit_ms,
                         const std::optional<CompilerWalls>& walls) {
  CompilerRun run;
  bool by_path = command[0].find('/') != std::string::npos;
  std::optional<std::string> program = by_path ? command[0] : find_program(command[0]);
  int output[2];
  if (!program || pipe2(output, O_CLOEXEC) != 0) return run;
  Child child(*program, command, walls, output[1]);
  pid_t pid = -1;
  UndoAtEnd ending;
  int namespaces_error = 0;
  for (unsigned long namespaces : namespaces_to_try(walls.has_value())) {
    int report[2];
    if (pipe2(report, O_CLOEXEC) != 0) break;
    int start_error = 0;
    ending.make(
        [&] {
          pid = child.start(namespaces, report[1]);
          start_error = errno;
        },
        [&] {
          if (pid <= 0) return;
          end_group(pid);
          wait_without_reaping(pid);
        });
    close(report[1]);
    std::vector<Child::Report> reports = reports_from(report[0]);
    close(report[0]);
    std::optional<int> unmapped = error_in(reports, Child::kMapUser);
    if (pid > 0 && !unmapped) {
      run.started = !error_in(reports, Child::kExec);
      int landlock =
          child.landlock_error() != 0 ? child.landlock_error() : error_in(reports, Child::kLandlock).value_or(0);
      if (walls)
        run.protections = {protection("the compiler's namespaces", namespaces == 0 ? namespaces_error : 0),
                           protection("the compiler's landlock", landlock),
                           protection("the compiler's limits", error_in(reports, Child::kLimits).value_or(0))};
      break;
    }
    namespaces_error = unmapped.value_or(start_error);
    ending.forget();
    if (pid > 0) waitpid(pid, nullptr, 0);
    pid = -1;
  }
  close(output[1]);
  // Keeps the beginning of the output and discards the rest; not reading it would block the compiler.
  if (run.started)
    run.timed_out = !read_blocks(output[0], limit_ms, [&](std::string_view block) {
      run.log += block.substr(0, kLogLimit - run.log.size());
      return true;
    });
  close(output[0]);
  if (pid <= 0) return run;
  if (run.timed_out) end_group(pid);
  wait_without_reaping(pid);
  ending.forget();
  int status = 0;
  waitpid(pid, &status, 0);
  if (WIFEXITED(status)) run.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) run.signal = WTERMSIG(status);
  return run;
}

}  // namespace fk
