// eval: how much faster whole models are with the candidates, and whether they still compute the same, as one score.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <thread>

#include "bench/eval/item.h"
#include "candidate/compile_cache.h"
#include "cli/candidate_options.h"
#include "cli/eval_folder.h"
#include "cli/eval_launcher.h"
#include "cli/eval_pair.h"
#include "cli/eval_report.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/record_options.h"
#include "cli/verb.h"
#include "core/device_runtime.h"
#include "core/error.h"
#include "core/output_file.h"
#include "core/shared_ranks.h"
#include "core/thread_pool.h"
#include "measure/machine_info.h"

namespace fk {
namespace {

// The cores that this process may use.
std::vector<int64_t> own_cores() {
  std::vector<int64_t> cores;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set)) cores.push_back(i);
  if (cores.empty()) cores.push_back(0);
  return cores;
}

class Eval final : public Verb {
 public:
  Eval()
      : Verb("eval", "Score your candidates over models: speed-up, correctness and coverage",
             {"fastkernels eval --model tiny-llama tiny-qwen3 --tp 1 2 --load-format dummy --num-prompts 20",
              "fastkernels eval --model llama-3-8b qwen3-8b --load-format dummy --device cuda --gpu-pool 8",
              "fastkernels eval --model tiny-llama --load-format dummy --scale 1/16 --run-dir my-eval",
              "fastkernels eval --model tiny-llama --load-format dummy --scale 1/16 --run-dir my-eval --resume",
              "fastkernels eval --model llama-3-8b --tp 1 4 --load-format dummy --device cuda --launcher slurm"}) {}

  bool computes() const override { return false; }  // child processes do, maybe on other machines

  void add_flags(FlagSet& flags) override {
    flags.option("--model", models_, "Models: checkpoints, GGUF files, names of the catalog, or Hugging Face ids")
        .type_name("MODEL");
    add_load_options(flags, model_);
    flags.option("--tp", tp_, "Numbers of tensor-parallel ranks; every model runs on each")
        .range(1, kMaxSharedRanks)
        .type_name("N")
        .show_default();
    flags.option("--category", categories_, "Only models of these: llm, text-encoder, image-encoder, diffusion")
        .one_of({"llm", "text-encoder", "image-encoder", "diffusion"});
    count(flags, "--num-prompts", num_prompts_, "Requests of a throughput workload");
    count(flags, "--max-num-seqs", max_num_seqs_, "Requests at the same time");
    flags
        .option("--scale", scale_,
                "Fraction of the workloads' lengths, such as 1/16; auto: 1, or less where a context is shorter")
        .type_name("FRACTION")
        .show_default();
    flags.option("--rounds", rounds_, "Processes with candidates of each pair, each between two without")
        .range(1, 1000)
        .show_default();
    count(flags, "--num-iters", iterations_, "Least number of timed iterations of a latency workload in each process");
    flags.option("--timeout", timeout_s_, "Seconds that a pair may take").check(seconds_complaint).show_default();
    flags.option("--gpu-pool", gpu_pool_, "GPUs to use, one pair on each --tp of them [all]").range(1, 1 << 10);
    flags
        .option("--cpu-slots", cpu_slots_,
                "On the CPU: pairs at the same time, each with its own cores [cores / --threads]")
        .range(1, 1 << 10);
    flags.option("--launcher", launcher_, "local: processes of this machine; slurm: a job for each pair")
        .one_of({"local", "slurm"})
        .show_default();
    flags.option("--slurm-partition", slurm_.partition, "Partition of the jobs [Slurm's default]").type_name("NAME");
    flags.option("--sbatch-arg", slurm_.arguments, "Another argument for sbatch; may be given several times")
        .type_name("ARG");
    flags.option("--slurm-poll", slurm_.poll_s, "Seconds between two looks at the queue")
        .check(seconds_complaint)
        .show_default();
    flags.option("--resubmit", resubmit_, "How often a pair is started again whose node was lost")
        .range(0, 100)
        .show_default();
    flags.option("--run-dir", run_dir_, "Folder for everything that is measured [bench/results/eval_<time>]")
        .type_name("DIR");
    flags.flag("--resume", resume_, "Resume the interrupted evaluation in --run-dir");
    flags.option("--output-json", output_, "File for the result, besides eval.json in --run-dir").type_name("FILE");
    add_candidate_options(flags, candidates_);
    add_record_options(flags, record_);
    flags.option("--pair-task", pair_task_, "Run one pair").hidden();
    flags.option("--side-task", side_task_, "Run one side of a pair").hidden();
  }

  void run(const CommonOptions& common) override {
    if (!pair_task_.empty()) return run_eval_pair(pair_task_);
    if (!side_task_.empty()) return run_eval_side(side_task_, common);
    check_flags(common);
    std::vector<CandidateRecord> judged = candidate_records(candidates_, common, record_.db);
    std::vector<PairTask> tasks = make_tasks(common);
    std::unique_ptr<EvalLauncher> launcher =
        launcher_ == "slurm" ? slurm_launcher(slurm_) : local_launcher(local_pool(common), tasks);
    EvalFolder folder(run_dir_.empty() ? results_path("eval", "") : run_dir_, resume_);
    std::string copy = folder.take_candidates(judged.empty() ? "" : candidate_folder());
    for (PairTask& task : tasks) task.candidate_folder = copy;
    folder.set_tasks(tasks);

    Recorder recorder(recorder_options(record_, results_path("eval", ".jsonl"), false), warn_on_stderr);
    RunRecord record = make_run(common, judged);
    folder.keep_run(record);
    recorder.start(named(std::move(record), record_), resume_);
    for (const CandidateRecord& c : judged) record_source(recorder, c.op, common);
    run_tasks(tasks, *launcher, folder, recorder, about(judged, folder.path()), common);
  }

 private:
  static void count(FlagSet& flags, const char* flag, int64_t& value, const char* help) {
    flags.option(flag, value, help).range(1, int64_t{1} << 24).show_default();
  }

  template <class T>
  static const T* given_twice(const std::vector<T>& values) {
    for (auto one = values.begin(); one != values.end(); ++one)
      if (std::find(values.begin(), one, *one) != one) return &*one;
    return nullptr;
  }

  void check_flags(const CommonOptions& common) {
    if (models_.empty()) throw UsageError("eval needs at least one --model");
    if (scale_ != "auto") parse_scale(scale_);
    if (resume_ && run_dir_.empty()) throw UsageError("--resume needs the --run-dir of the interrupted evaluation");
    // The same pair twice would count twice in the score.
    if (const std::string* model = given_twice(models_))
      throw UsageError("--model {} is given twice; give every model once", *model);
    if (const int64_t* ranks = given_twice(tp_))
      throw UsageError("--tp {} is given twice; give every number once", *ranks);
    if (!output_.empty()) check_output_path(output_);
    if (launcher_ == "local" && !device_missing_text(common).empty())
      throw UsageError("{}", device_missing_text(common));
    if (candidates_.disabled && candidates_.allow_incorrect)
      throw UsageError("--allow-incorrect is about candidates; leave --no-candidate-kernels out");
  }
  static std::string device_missing_text(const CommonOptions& common) {
    return common.device == kCpu ? "" : device_missing(common.device);
  }

  std::vector<PairTask> make_tasks(const CommonOptions& common) {
    std::vector<PairTask> tasks;
    std::vector<std::string> left_out;
    for (const std::string& model : models_) {
      ModelSource source = resolve_model(model);
      Task kind = source.config.facts.task;
      if (kind == Task::kDraftHead) source.config.require_task(Task::kCausalLM, source.name, "eval");
      std::string category = eval_category(kind);
      if (!categories_.empty() && std::find(categories_.begin(), categories_.end(), category) == categories_.end())
        continue;
      bool made_up = model_.load_format == "dummy" || !source.has_weights();
      if (made_up && model_.load_format == "auto")
        notes_.push_back(fmt::format("{} has no weights here: they are made up, as with --load-format dummy.", model));
      for (int64_t ranks : tp_) {
        try {
          check_divisible(source, ranks);
        } catch (const Error& e) {  // no fault of a candidate: it does not count
          left_out.push_back(fmt::format("Left out: {}", e.what()));
          continue;
        }
        PairTask task;
        task.name = unused_name(tasks, fmt::format("{}_tp{}", file_name(source.name), ranks));
        task.model = is_path(model) ? std::filesystem::absolute(model).string() : model;
        task.load_format = made_up ? "dummy" : "auto";
        task.dtype = model_.dtype;
        task.quantization = model_.quantization;
        task.weight_seed = model_.weight_seed;
        task.category = category;
        task.tp = ranks;
        task.device = device_name(common.device);
        task.threads = threads_of_pair(common, ranks);
        task.seed = common.seed;
        task.num_prompts = num_prompts_;
        task.max_num_seqs = max_num_seqs_;
        task.scale = scale_ != "auto"
                         ? parse_scale(scale_).text()
                         : fitting_scale(kind, source.config.facts.max_position_embeddings, source.name).text();
        task.rounds = rounds_;
        task.iterations = iterations_;
        task.timeout_s = timeout_s_;
        task.cxxflags = candidates_.cxxflags;
        task.allow_libraries = candidates_.allow_libraries;
        tasks.push_back(std::move(task));
      }
    }
    if (tasks.empty() && !left_out.empty()) throw Error("{}", left_out.front());
    notes_.insert(notes_.end(), left_out.begin(), left_out.end());
    if (tasks.empty()) throw Error("No model is left to evaluate; give another --category or --model.");
    return tasks;
  }
  static bool is_path(const std::string& model) {
    std::error_code error;
    return std::filesystem::exists(model, error);
  }
  // A part of a path: what is not a letter, a digit or one of .-_ becomes _.
  static std::string file_name(std::string name) {
    for (char& c : name)
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-') c = '_';
    return name;
  }
  static std::string unused_name(const std::vector<PairTask>& tasks, const std::string& name) {
    std::string unused = name;
    for (int i = 2; std::any_of(tasks.begin(), tasks.end(), [&](const PairTask& t) { return t.name == unused; }); ++i)
      unused = fmt::format("{}_{}", name, i);
    return unused;
  }

  // On a GPU every pair has a thread or two on the host; on the CPU the cores of a slot, and at least one for each rank
  // as long as there are enough.
  int threads_of_pair(const CommonOptions& common, int64_t ranks) const {
    if (launcher_ == "slurm") return std::max(common.threads, static_cast<int>(ranks));
    int cores = usable_cores();
    int threads = cpu_slots_ > 0 ? std::max(1, cores / static_cast<int>(cpu_slots_)) : std::min(common.threads, cores);
    return std::min(cores, std::max(threads, static_cast<int>(ranks)));
  }

  LocalPool local_pool(const CommonOptions& common) const {
    LocalPool pool;
    pool.gpus = common.device != kCpu;
    int64_t count = pool.gpus ? device_count(common.device.kind) : usable_cores();
    if (pool.gpus && gpu_pool_ > count)
      throw UsageError("--gpu-pool {} is more than the {} GPUs of this machine", gpu_pool_, count);
    if (pool.gpus && gpu_pool_ > 0) count = gpu_pool_;
    if (pool.gpus) {
      for (int64_t i = 0; i < count; ++i) pool.units.push_back(i);
    } else {
      pool.units = own_cores();
    }
    return pool;
  }

  RunRecord make_run(const CommonOptions& common, const std::vector<CandidateRecord>& judged) const {
    RunRecord run = new_run("eval", common, machine_info());
    run.name = fmt::format("eval {}", fmt::join(models_, " "));
    run.mode = launcher_;
    auto add = [&](const char* key, const auto& value) { run.params[key] = fmt::format("{}", value); };
    add("models", fmt::to_string(fmt::join(models_, " ")));
    add("tp", fmt::to_string(fmt::join(tp_, " ")));
    add("load_format", model_.load_format);
    add("dtype", model_.dtype);
    if (!model_.quantization.empty()) add("quantization", model_.quantization);
    add("num_prompts", num_prompts_);
    add("max_num_seqs", max_num_seqs_);
    add("scale", scale_);
    add("rounds", rounds_);
    add("num_iters", iterations_);
    if (judged.empty())
      run.tags["self_test"] = "true";
    else
      run.tags["candidates_judged"] = judged_at_worst(judged);
    return run;
  }

  static void record_source(Recorder& recorder, const std::string& op, const CommonOptions& common) {
    std::string path = find_candidate(candidate_folder(), Registry::instance().at(op), common.device.kind).path;
    recorder.add(candidate_events({op, path, file_text(path).value_or("")}));
  }

  Json about(const std::vector<CandidateRecord>& judged, const std::string& folder) const {
    Json notes = Json::array(), candidates = Json::array();
    if (judged.empty())
      notes.push_back("There are no candidates: both sides ran the baselines, so this is the control.");
    for (const std::string& sentence : notes_) notes.push_back(sentence);
    if (std::string doubt = describe_judged(judged); !doubt.empty()) notes.push_back("Candidates: " + doubt + ".");
    for (const CandidateRecord& c : judged)
      candidates.push_back({{"operator", c.op}, {"candidate", c.identity}, {"judged", c.judged}});
    return {{"version", FK_VERSION}, {"run_dir", folder},
            {"launcher", launcher_}, {"num_prompts", num_prompts_},
            {"rounds", rounds_},     {"candidates", candidates},
            {"notes", notes},        {"machine", to_json(machine_info())}};
  }

  void run_tasks(std::vector<PairTask>& tasks, EvalLauncher& launcher, const EvalFolder& folder, Recorder& recorder,
                 const Json& about, const CommonOptions& common) {
    Progress progress(common);
    std::vector<Json> items(tasks.size());
    std::deque<size_t> waiting;
    std::map<std::string, int64_t> started;  // by name
    size_t done = 0;
    for (size_t i = 0; i < tasks.size(); ++i) {
      items[i] = folder.finished_item(tasks[i]);
      if (items[i].is_null())
        waiting.push_back(i);
      else
        ++done;
    }
    auto finish = [&](bool early) -> std::string {
      progress.show("");
      std::vector<Json> known;
      for (const Json& item : items)
        if (!item.is_null()) known.push_back(item);
      Json document = eval_document(known, about);
      document["notes"] = notes_with_scales(document, tasks);
      document["finished"] = !early;
      std::string text = dump_json(document) + "\n", failed = eval_failure(document);
      write_file(folder.path() + "/eval.json", text);
      if (!output_.empty()) write_file(output_, text);
      record_eval(recorder, document);
      if (early) {
        recorder.end("interrupted");
        return fmt::format("Interrupted after {} of {} pairs; --run-dir {} --resume resumes it.", done, tasks.size(),
                           folder.path());
      }
      recorder.end(failed.empty() ? "finished" : "failed", failed);
      print_eval(document, common);
      return failed;
    };
    InterruptGuard guard([&] { return exit_code_of([&] { return fail(kFailure, finish(true)); }); });
    std::vector<size_t> running;
    while (done < tasks.size()) {
      for (size_t n = waiting.size(); n > 0; --n) {
        size_t i = waiting.front();
        waiting.pop_front();
        if (launcher.start(tasks[i])) {
          ++started[tasks[i].name];
          running.push_back(i);
        } else {
          waiting.push_back(i);
        }
      }
      std::string names;
      for (size_t i : running) names += " " + tasks[i].name;
      progress.show(fmt::format("{} of {} pairs done, running:{}", done, tasks.size(), names));
      guard.interruptible([&] { std::this_thread::sleep_for(std::chrono::duration<double>(launcher.poll_seconds())); });
      for (const EvalLauncher::Ended& ended : launcher.ended()) {
        auto at = std::find_if(running.begin(), running.end(), [&](size_t i) { return tasks[i].name == ended.name; });
        size_t i = *at;
        running.erase(at);
        if (ended.again && started[ended.name] <= resubmit_) {
          warn_on_stderr(fmt::format("{} is started again: {}", ended.name, ended.lost));
          waiting.push_back(i);
          continue;
        }
        items[i] = std::filesystem::exists(item_path(tasks[i])) ? parse_json_file(item_path(tasks[i]))
                                                                : failed_item(tasks[i], "process", ended.lost);
        ++done;
      }
    }
    std::string failed = finish(false);
    if (!failed.empty()) throw Error("{}", failed);
  }

  static Json notes_with_scales(const Json& document, const std::vector<PairTask>& tasks) {
    Json notes = document.at("notes");
    for (const PairTask& task : tasks)
      if (task.scale != "1")
        notes.push_back(fmt::format("{}: the workloads have {} of their lengths.", task.name, task.scale));
    return notes;
  }

  std::vector<std::string> models_, categories_;
  std::vector<std::string> notes_;  // sentences on models and pairs, for the result
  ModelOptions model_;
  std::vector<int64_t> tp_ = {1};
  CandidateOptions candidates_;
  RecordOptions record_;
  SlurmOptions slurm_;
  int64_t num_prompts_ = 1000, max_num_seqs_ = 256, rounds_ = 3, iterations_ = 5, gpu_pool_ = 0, cpu_slots_ = 0,
          resubmit_ = 2;
  double timeout_s_ = 3600;
  std::string scale_ = "auto", launcher_ = "local", run_dir_, output_, pair_task_, side_task_;
  bool resume_ = false;
};

Eval eval_verb;

}  // namespace
}  // namespace fk
