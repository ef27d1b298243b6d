#include "cli/eval_pair.h"

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <random>
#include <thread>

#include "bench/eval/item.h"
#include "cli/own_process.h"
#include "core/error.h"
#include "core/output_file.h"
#include "core/undo_at_end.h"
#include "models/resolve.h"

namespace fk {
namespace {

// A side did not end: an outcome of the pair, not an error of this program.
struct SideFailed {
  std::string stage, error;
};

class PairRun {
 public:
  explicit PairRun(PairTask task) : task_(std::move(task)) {}

  Json run() {
    Task model_task = resolve_model(task_.model).config.facts.task;
    PairResults results;
    results.reference = side({.pair = {}, .phase = SidePhase::kReference, .output = {}}, "reference");
    std::map<std::string, int64_t> repeats;
    for (const auto& [name, workload] : results.reference.at("workloads").items())
      if (workload.contains("repeats")) repeats[name] = workload["repeats"].get<int64_t>();
    for (int64_t i = 0; i < 2 * task_.rounds + 1; ++i) {
      bool with = i % 2 == 1;
      SideTask side_task{.pair = {}, .candidate = with, .round = i / 2, .repeats = repeats, .output = {}};
      side_task.check_before = with && i == 1;
      side_task.check_after = with && i == 2 * task_.rounds - 1;
      std::string stage = fmt::format("{} {}", with ? "candidate" : "baseline", i / 2 + 1);
      (with ? results.with : results.without).push_back(side(side_task, stage));
    }
    if (!is_stateless(model_task)) {
      std::string scored = task_.folder + "/scored.json";
      if (!std::filesystem::exists(scored))  // else it was scored before an interruption
        write_file(scored_path(task_), dump_json(choose_scored(eval_workloads(model_task, parse_scale(task_.scale)),
                                                               results, std::random_device()()),
                                                 -1));
      results.scored = side({.pair = {}, .phase = SidePhase::kScored, .output = {}}, "scored");
    }
    std::optional<DType> dtype = dtype_from_name(results.reference.at("dtype").get<std::string>());
    return item_of(task_, model_task, dtype.value_or(DType::kBF16), results);
  }

 private:
  // What this process of the pair wrote, now or before an interruption.
  Json side(SideTask task, const std::string& stage) {
    std::string stem = stage;
    std::replace(stem.begin(), stem.end(), ' ', '_');
    task.pair = task_;
    task.output = fmt::format("{}/{}.json", task_.folder, stem);
    std::error_code error;
    if (!std::filesystem::exists(task.output, error)) {
      std::string task_file = fmt::format("{}/{}.task.json", task_.folder, stem);
      write_file(task_file, dump_json(to_json(task)));
      OwnProcess process = run_own_process({"eval", "--quiet", "--side-task", task_file, "--device", task_.device,
                                            "--threads", std::to_string(task_.threads)});
      if (process.exit_code != 0) {
        std::string words = last_error_line(process.err);
        if (process.exit_code < 0) words = fmt::format("signal {} ended it. {}", -process.exit_code, words);
        if (words.empty()) words = fmt::format("it ended with code {} and printed nothing", process.exit_code);
        throw SideFailed{stage, words};
      }
      if (!std::filesystem::exists(task.output, error)) throw SideFailed{stage, "it ended without a result"};
    }
    return parse_json_file(task.output);
  }

  PairTask task_;
};

// Ends the pair when its time is over: the failure is written, child processes are ended.
class Deadline {
 public:
  explicit Deadline(const PairTask& task) : task_(task), thread_([this] { wait(); }) {}
  ~Deadline() {
    {
      std::lock_guard lock(mutex_);
      over_ = true;
    }
    ended_.notify_one();
    thread_.join();
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  void wait() {
    std::unique_lock lock(mutex_);
    if (ended_.wait_for(lock, std::chrono::duration<double>(task_.timeout_s), [&] { return over_; })) return;
    try {
      write_file(item_path(task_),
                 dump_json(failed_item(task_, "time-out", fmt::format("it took longer than {} s", task_.timeout_s))));
    } catch (const Error&) {
      // The parent reports that there is no result.
    }
    undo_everything();
    _exit(0);
  }

  const PairTask& task_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

void take_cores(const std::vector<int64_t>& cores) {
  if (cores.empty()) return;
  cpu_set_t mine;
  CPU_ZERO(&mine);
  for (int64_t core : cores)
    if (core >= 0 && core < CPU_SETSIZE) CPU_SET(static_cast<size_t>(core), &mine);
  static_cast<void>(sched_setaffinity(0, sizeof mine, &mine));  // else the system distributes the work
}

}  // namespace

std::string item_path(const PairTask& task) { return task.folder + "/item.json"; }
std::string pair_task_path(const PairTask& task) { return task.folder + "/task.json"; }

std::string last_error_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  text = text.substr(text.rfind('\n') + 1);
  constexpr std::string_view kProgram = "fastkernels: ";
  return text.starts_with(kProgram) ? text.substr(kProgram.size()) : text;
}

void run_eval_pair(const std::string& task_file) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // nothing of an evaluation outlives it
  PairTask task = pair_task_of(parse_json_file(task_file));
  take_cores(task.cores);
  Json item;
  {
    Deadline deadline(task);
    try {
      item = PairRun(task).run();
    } catch (const SideFailed& failed) {
      item = failed_item(task, failed.stage, failed.error);
    } catch (const std::exception& error) {
      item = failed_item(task, "comparison", error.what());
    }
  }
  write_file(item_path(task), dump_json(item) + "\n", true);
}

}  // namespace fk
