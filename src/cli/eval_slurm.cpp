// Pairs as jobs of Slurm, each with the GPUs or cores it needs. Tasks and results are files of the run's folder, which
// all nodes share.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <sstream>

#include "candidate/compile_cache.h"
#include "cli/eval_launcher.h"
#include "cli/eval_pair.h"
#include "cli/shell_line.h"
#include "core/error.h"
#include "core/output_file.h"
#include "core/undo_at_end.h"
#include "measure/child_output.h"

namespace fk {
namespace {

constexpr int kCommandMs = 60'000;  // a busy controller answers slowly

// Jobs in these states have not ended.
bool in_queue(const std::string& state) {
  for (const char* known : {"PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "REQUEUED", "REQUEUE_HOLD",
                            "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED"})
    if (state == known) return true;
  return false;
}

std::string own_program() {
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) throw Error("The path of this program cannot be read from /proc, so no job can be submitted.");
  return {path, static_cast<size_t>(length)};
}

struct SlurmJob {
  std::string name, id;
  PairTask task;
  int missing = 0;  // times that the controller did not know it
};

class SlurmLauncher final : public EvalLauncher {
 public:
  explicit SlurmLauncher(const SlurmOptions& options) : options_(options) {
    for (const char* program : {"sbatch", "squeue", "scontrol", "scancel"})
      if (!find_program(program))
        throw Error("--launcher slurm needs {}, which is not in PATH; install Slurm or use --launcher local.", program);
    cancel_.make([] {}, [this] { cancel_all(); });
  }
  ~SlurmLauncher() override { cancel_.undo(); }

  bool start(PairTask& task) override {
    write_file(pair_task_path(task), dump_json(to_json(task)));
    std::string script = task.folder + "/job.sh";
    write_file(script, "#!/bin/sh\nexec " +
                           shell_line({own_program(), "eval", "--quiet", "--pair-task",
                                       std::filesystem::absolute(pair_task_path(task)).string()}) +
                           "\n");
    std::vector<std::string> command = {"sbatch",
                                        "--parsable",
                                        "--no-requeue",
                                        "--export=ALL",
                                        "--job-name=fk-" + task.name,
                                        "--chdir=" + std::filesystem::current_path().string(),
                                        "--output=" + log_path(task),
                                        "--nodes=1",
                                        "--ntasks=1",
                                        fmt::format("--cpus-per-task={}", task.threads)};
    // A minute more than the pair's own time-out, which leaves a result.
    command.push_back(fmt::format("--time={}", static_cast<int64_t>(task.timeout_s / 60) + 2));
    if (task.device != "cpu") command.push_back(fmt::format("--gres=gpu:{}", task.tp));
    if (!options_.partition.empty()) command.push_back("--partition=" + options_.partition);
    command.insert(command.end(), options_.arguments.begin(), options_.arguments.end());
    command.push_back(script);
    SlurmJob job{task.name, "", task};
    {
      std::lock_guard lock(mutex_);  // a job that is being submitted is cancelled too
      std::optional<std::string> printed = output_of(command, kCommandMs);
      if (!printed)
        throw Error("Slurm did not take the job of {}; run `{}` to see why.", task.name, shell_line(command));
      job.id = printed->substr(0, printed->find_first_of(";\n"));
      jobs_[job.id] = job;
    }
    return true;
  }

  std::vector<Ended> ended() override {
    std::vector<Ended> list;
    std::map<std::string, std::string> states = states_of_jobs();
    for (auto at = jobs_.begin(); at != jobs_.end();) {
      SlurmJob& job = at->second;
      auto known = states.find(job.id);
      std::string state = known == states.end() ? final_state(job.id) : known->second;
      bool has_item = std::filesystem::exists(item_path(job.task));
      // The controller may be restarting or has forgotten a job that ended long ago; the file of one that completed may
      // still be on its way through the shared folder.
      bool late = !has_item && (state.empty() || state == "COMPLETED") && ++job.missing < kMostMissing;
      if (in_queue(state) || late) {
        ++at;
        continue;
      }
      Ended one{job.name, "", false};
      if (!has_item) {
        std::string last = last_error_line(file_text(log_path(job.task)).value_or(""));
        one.lost = fmt::format("its Slurm job {} ended as {} without a result{}", job.id,
                               state.empty() ? "unknown" : state, last.empty() ? "" : ": " + last);
        // A pair that fails leaves an item that says so. Without one its node was lost, or its processes were killed;
        // only these states would come again.
        one.again = state != "CANCELLED" && state != "OUT_OF_MEMORY" && state != "TIMEOUT" && state != "DEADLINE";
      }
      list.push_back(one);
      std::lock_guard lock(mutex_);
      at = jobs_.erase(at);
    }
    return list;
  }

  double poll_seconds() const override { return options_.poll_s; }

 private:
  static constexpr int kMostMissing = 5;
  static std::string log_path(const PairTask& task) { return task.folder + "/job.log"; }

  // Of the jobs that Slurm still has in its queue.
  std::map<std::string, std::string> states_of_jobs() const {
    std::map<std::string, std::string> states;
    std::string ids;
    for (const auto& [id, job] : jobs_) ids += (ids.empty() ? "" : ",") + id;
    if (ids.empty()) return states;
    std::istringstream lines(
        output_of({"squeue", "--noheader", "--states=all", "--format=%i %T", "--jobs=" + ids}, kCommandMs)
            .value_or(""));
    for (std::string id, state; lines >> id >> state;) states[id] = state;
    return states;
  }

  // "JobState=NODE_FAIL" of one that squeue does not list; empty where Slurm has forgotten it.
  static std::string final_state(const std::string& id) {
    std::string text = output_of({"scontrol", "--oneliner", "show", "job", id}, kCommandMs).value_or("");
    constexpr std::string_view kKey = "JobState=";
    size_t at = text.find(kKey);
    if (at == std::string::npos) return "";
    at += kKey.size();
    return text.substr(at, text.find(' ', at) - at);
  }

  void cancel_all() {
    std::lock_guard lock(mutex_);
    std::vector<std::string> command = {"scancel"};
    for (const auto& [id, job] : jobs_) command.push_back(id);
    if (command.size() > 1) output_of(command, kCommandMs);
    jobs_.clear();
  }

  SlurmOptions options_;
  std::mutex mutex_;  // of jobs_: Ctrl-C cancels them on another thread
  std::map<std::string, SlurmJob> jobs_;
  UndoAtEnd cancel_;
};

}  // namespace

std::unique_ptr<EvalLauncher> slurm_launcher(const SlurmOptions& options) {
  return std::make_unique<SlurmLauncher>(options);
}

}  // namespace fk
