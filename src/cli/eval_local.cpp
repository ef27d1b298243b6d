// Pairs as child processes of this machine, each with GPUs or cores of its own.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cli/eval_launcher.h"
#include "cli/eval_pair.h"
#include "core/error.h"
#include "core/output_file.h"
#include "core/undo_at_end.h"

extern char** environ;

namespace fk {
namespace {

std::string printed_errors(int file) {
  std::string text(static_cast<size_t>(std::max<off_t>(lseek(file, 0, SEEK_END), 0)), '\0');
  ssize_t got = pread(file, text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

struct PairProcess {
  std::string name;
  pid_t id = -1;
  int errors = -1;
  std::vector<int64_t> units;
  UndoAtEnd at_exit;

  ~PairProcess() {
    at_exit.forget();
    if (errors >= 0) close(errors);
  }
};

class LocalLauncher final : public EvalLauncher {
 public:
  explicit LocalLauncher(const LocalPool& pool) : gpus_(pool.gpus), free_(pool.units) {}
  ~LocalLauncher() override {
    for (const std::unique_ptr<PairProcess>& child : children_) {
      kill(child->id, SIGTERM);  // it ends its own child processes then
      while (waitpid(child->id, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
  }

  bool start(PairTask& task) override {
    size_t needed = units_of(task, gpus_);
    if (needed > free_.size()) return false;
    std::sort(free_.begin(), free_.end());
    auto child = std::make_unique<PairProcess>();
    child->name = task.name;
    child->units.assign(free_.begin(), free_.begin() + static_cast<std::ptrdiff_t>(needed));
    free_.erase(free_.begin(), free_.begin() + static_cast<std::ptrdiff_t>(needed));
    if (!gpus_) task.cores = child->units;
    write_file(pair_task_path(task), dump_json(to_json(task)));
    spawn(*child, task);
    children_.push_back(std::move(child));
    return true;
  }

  std::vector<Ended> ended() override {
    std::vector<Ended> list;
    for (size_t i = 0; i < children_.size();) {
      PairProcess& child = *children_[i];
      int status = 0;
      pid_t got = waitpid(child.id, &status, WNOHANG);
      if (got == 0 || (got < 0 && errno == EINTR)) {
        ++i;
        continue;
      }
      Ended one{child.name, "", false};
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        one.lost = last_error_line(printed_errors(child.errors));
        if (WIFSIGNALED(status)) one.lost = fmt::format("signal {} ended its process", WTERMSIG(status));
        if (one.lost.empty()) one.lost = "its process ended and printed no reason";
      }
      free_.insert(free_.end(), child.units.begin(), child.units.end());
      list.push_back(one);
      children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return list;
  }

  double poll_seconds() const override { return 0.05; }

  static size_t units_of(const PairTask& task, bool gpus) {
    return static_cast<size_t>(gpus ? task.tp : std::max<int64_t>(1, task.threads));
  }

 private:
  void spawn(PairProcess& child, const PairTask& task) {
    child.errors = memfd_create("stderr", MFD_CLOEXEC);
    if (child.errors < 0) throw Error("The system gave no memory for a process's output ({}).", strerror(errno));
    std::vector<std::string> words = {"fastkernels", "eval", "--quiet", "--pair-task", pair_task_path(task)};
    std::vector<std::string> variables;
    for (char** variable = environ; *variable != nullptr; ++variable)
      if (!gpus_ || !std::string_view(*variable).starts_with("CUDA_VISIBLE_DEVICES="))
        variables.emplace_back(*variable);
    if (gpus_) variables.push_back(fmt::format("CUDA_VISIBLE_DEVICES={}", fmt::join(child.units, ",")));
    std::vector<char*> argv, envp;
    for (std::string& word : words) argv.push_back(word.data());
    for (std::string& variable : variables) envp.push_back(variable.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&files, child.errors, STDERR_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    int failed = 0;
    child.at_exit.make(
        [&] {
          failed = posix_spawn(&child.id, "/proc/self/exe", &files, &attributes, argv.data(), envp.data());
          if (failed != 0) child.id = -1;
        },
        [&child] {
          if (child.id > 0) kill(child.id, SIGTERM);
        });
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    if (failed != 0) throw Error("A process of the evaluation could not be started ({}).", strerror(failed));
  }

  bool gpus_;
  std::vector<int64_t> free_;
  std::vector<std::unique_ptr<PairProcess>> children_;
};

}  // namespace

std::unique_ptr<EvalLauncher> local_launcher(const LocalPool& pool, const std::vector<PairTask>& tasks) {
  for (const PairTask& task : tasks)
    if (LocalLauncher::units_of(task, pool.gpus) > pool.units.size())
      throw UsageError("{} needs {} {}, and there are {}; use fewer {}", task.name,
                       LocalLauncher::units_of(task, pool.gpus), pool.gpus ? "GPUs" : "cores", pool.units.size(),
                       pool.gpus ? "ranks (--tp) or a larger --gpu-pool" : "--threads");
  return std::make_unique<LocalLauncher>(pool);
}

}  // namespace fk
