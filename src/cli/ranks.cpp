#include "cli/ranks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "candidate/compile_cache.h"
#include "core/device_runtime.h"
#include "core/error.h"
#include "core/thread_pool.h"

extern char** environ;

namespace fk {
namespace {

// Set for the ranks that this program starts: "rank/ranks:file:first rank's process".
constexpr const char* kRankVariable = "FASTKERNELS_RANK";

struct StartedRank {
  int64_t rank = 0, ranks = 1;
  int file = -1;
  pid_t first = -1;  // the process of the first rank
};

std::optional<StartedRank> started_rank() {
  const char* text = std::getenv(kRankVariable);
  if (text == nullptr) return std::nullopt;
  StartedRank started;
  long rank = 0, ranks = 0;
  int end = 0;
  if (std::sscanf(text, "%ld/%ld:%d:%d%n", &rank, &ranks, &started.file, &started.first, &end) != 4 ||
      text[end] != '\0' || rank < 1 || rank >= ranks)
    throw Error("{} is for processes that --tp starts; unset it.", kRankVariable);
  unsetenv(kRankVariable);  // its own child processes are no ranks
  started.rank = rank;
  started.ranks = ranks;
  return started;
}

std::string text_of(int file) {
  std::string text(static_cast<size_t>(std::max<off_t>(lseek(file, 0, SEEK_END), 0)), '\0');
  ssize_t got = pread(file, text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

// "fastkernels: <sentence>" is the last line of a program that failed.
std::string last_sentence(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  text = text.substr(text.rfind('\n') + 1);
  constexpr std::string_view kProgram = "fastkernels: ";
  return text.starts_with(kProgram) ? text.substr(kProgram.size()) : text;
}

// Each rank gets cores of its own where there are enough; else the system distributes the ranks.
void take_cores(int64_t rank, int threads, int64_t ranks) {
  cpu_set_t usable, mine;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof usable, &usable) != 0 || CPU_COUNT(&usable) < threads * ranks) return;
  int64_t at = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &usable)) {
      if (at / threads == rank) CPU_SET(core, &mine);
      ++at;
    }
  static_cast<void>(sched_setaffinity(0, sizeof mine, &mine));
}

void become_silent(CommonOptions& common) {
  common.quiet = true;
  int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nothing < 0) return;
  dup2(nothing, STDOUT_FILENO);
  close(nothing);
}

}  // namespace

void add_rank_options(FlagSet& flags, int64_t& tp) {
  flags
      .option(
          "--tp", tp,
          "Tensor-parallel ranks: processes that divide the model between them, and --threads. mpirun -n N may start "
          "them")
      .range(1, kMaxSharedRanks)
      .type_name("N")
      .show_default();
}

int64_t launched_ranks() { return launcher() == nullptr ? 0 : launcher()->started(); }

Ranks::Ranks(int64_t tp, CommonOptions& common) {
  std::optional<StartedRank> started = started_rank();
  const LauncherDriver* driver = launcher();
  int64_t launched = started ? 0 : launched_ranks();
  if (launched > 1 && launched != tp)
    throw UsageError("mpirun has started {} ranks and --tp asks for {}; give both the same number", launched, tp);
  if (tp == 1) return;
  if (common.device != kCpu && launched == 0 && device_count(common.device.kind) < common.device.index + tp)
    throw UsageError(
        "--tp {} needs that many GPUs from {} on, and this machine has {}; use --device cpu or fewer ranks", tp,
        device_name(common.device), device_count(common.device.kind));
  std::unique_ptr<Communicator> host;
  if (launched == tp) {
    host = driver->join();
  } else if (started) {
    if (started->ranks != tp) throw Error("This is one of {} ranks, but --tp asks for {}.", started->ranks, tp);
    // The first rank ends this process too; SIGKILL, because it may be waiting for a rank that is gone.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != started->first) throw Error("The first rank ended while this one started.");
    memory_ = std::make_unique<SharedRanks>(started->file, tp);
    host = memory_->join(started->rank);
  } else {
    memory_ = std::make_unique<SharedRanks>(tp);
    start_processes(tp, common);
    host = memory_->join(0, [this] { watch(); });
  }
  if (launched == tp) {
    // mpirun gives each rank its cores, unless it was told not to.
    auto of_this_machine = static_cast<int>(driver->on_this_machine());
    auto cores = static_cast<int>(std::thread::hardware_concurrency());
    common.threads = std::max(1, std::min(common.threads, cores / std::max(1, of_this_machine)));
  } else {
    common.threads = std::max(1, common.threads / static_cast<int>(tp));
    take_cores(host->rank(), common.threads, tp);
  }
  if (host->rank() > 0) become_silent(common);
  host->barrier();  // a rank that cannot start is noticed here
  communicator_ = std::move(host);
  if (common.device == kCpu) return;
  host_ = std::move(communicator_);
  // Rank i of a machine computes on the i-th device behind the one that was named.
  int64_t of_this_machine = launched == tp ? std::max<int64_t>(1, driver->on_this_machine()) : tp;
  common.device.index = static_cast<int8_t>(common.device.index + host_->rank() % of_this_machine);
  communicator_ = device_communicator(*host_, common.device);
}

Ranks::~Ranks() {
  communicator_.reset();
  host_.reset();
  for (const std::unique_ptr<Process>& process : processes_) {
    if (!process->ended) {
      kill(process->id, SIGKILL);
      while (waitpid(process->id, nullptr, 0) < 0 && errno == EINTR) {
      }
      process->at_exit.forget();
    }
    close(process->errors);
  }
}

void Ranks::start_processes(int64_t tp, const CommonOptions& common) {
  std::string line = file_text("/proc/self/cmdline").value_or("");
  std::vector<std::string> words;
  for (size_t at = 0; at < line.size();) {
    size_t end = std::min(line.find('\0', at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  if (words.empty()) throw Error("The command line cannot be read from /proc, so no rank can be started.");
  // main() has hidden the config file from child processes, but ranks are the same command.
  setenv("FASTKERNELS_CONFIG", common.config_file.c_str(), 1);
  for (int64_t rank = 1; rank < tp; ++rank) start_process(rank, tp, words);
  unsetenv(kRankVariable);
  setenv("FASTKERNELS_CONFIG", "", 1);
}

void Ranks::start_process(int64_t rank, int64_t tp, const std::vector<std::string>& words) {
  auto process = std::make_unique<Process>();
  process->errors = memfd_create("stderr", MFD_CLOEXEC);
  if (process->errors < 0)
    throw Error("The system gave no memory for the output of rank {} ({}).", rank, strerror(errno));
  setenv(kRankVariable, fmt::format("{}/{}:{}:{}", rank, tp, memory_->file(), getpid()).c_str(), 1);
  std::vector<std::string> copies = words;
  std::vector<char*> argv;
  for (std::string& word : copies) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&files, process->errors, STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&files, memory_->file(), memory_->file());  // inherited, unlike other files
  int failed = 0;
  process->at_exit.make(
      [&] { failed = posix_spawn(&process->id, "/proc/self/exe", &files, nullptr, argv.data(), environ); },
      [child = process.get()] {
        if (child->id > 0) kill(child->id, SIGKILL);
      });
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) {
    process->at_exit.forget();
    close(process->errors);
    throw Error("Rank {} could not be started ({}).", rank, strerror(failed));
  }
  processes_.push_back(std::move(process));
}

// True when it has ended. Throws Error with its message if it failed.
bool Ranks::reap(Process& process, int64_t rank, bool wait) {
  if (process.ended) return true;
  int status = 0;
  pid_t got = 0;
  while ((got = waitpid(process.id, &status, wait ? 0 : WNOHANG)) < 0 && errno == EINTR) {
  }
  if (got == 0) return false;
  process.ended = true;
  process.at_exit.forget();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  std::string why = last_sentence(text_of(process.errors));
  if (WIFSIGNALED(status)) why = fmt::format("it was ended by signal {}.", WTERMSIG(status));
  throw Error("Rank {} failed: {}", rank, why.empty() ? "it printed no reason." : why);
}

void Ranks::watch() {
  for (size_t i = 0; i < processes_.size(); ++i)
    if (reap(*processes_[i], static_cast<int64_t>(i) + 1, false))
      throw Error("Rank {} ended before the others; start all ranks with the same command line.", i + 1);
}

std::vector<std::string> Ranks::gather(const std::string& text) {
  if (communicator_ == nullptr) return {text};
  Communicator& ranks = host();
  auto count = static_cast<size_t>(ranks.size());
  auto length = static_cast<int64_t>(text.size());
  std::vector<int64_t> lengths(count);
  ranks.all_gather(View(&length, Shape{1}, DType::kI64), View(lengths.data(), Shape{ranks.size()}, DType::kI64),
                   nullptr);
  int64_t most = *std::max_element(lengths.begin(), lengths.end());
  std::string mine = text, all(count * static_cast<size_t>(most), '\0');
  mine.resize(static_cast<size_t>(most));
  ranks.all_gather(View(mine.data(), Shape{most}, DType::kU8), View(all.data(), Shape{ranks.size() * most}, DType::kU8),
                   nullptr);
  std::vector<std::string> texts;
  for (size_t r = 0; r < count; ++r)
    texts.push_back(all.substr(r * static_cast<size_t>(most), static_cast<size_t>(lengths[r])));
  return texts;
}

void Ranks::finish() {
  if (communicator_ == nullptr) return;
  host().barrier();
  for (size_t i = 0; i < processes_.size(); ++i) reap(*processes_[i], static_cast<int64_t>(i) + 1, true);
}

}  // namespace fk
