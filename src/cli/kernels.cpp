// kernels: judges and times candidates against their baselines, operator by operator.
#include <fmt/format.h>
#include <signal.h>

#include <fstream>
#include <sstream>

#include "bench/kernels/kernel_bench.h"
#include "bench/kernels/result_file.h"
#include "bench/scenarios/generate.h"
#include "bench/scenarios/memory_plan.h"
#include "bench/scenarios/scenario_file.h"
#include "candidate/compile.h"
#include "cli/kernels_report.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/device_runtime.h"
#include "measure/machine_info.h"
#include "measure/timer.h"

namespace fk {
namespace {

volatile sig_atomic_t g_interrupted = 0;

// Ctrl-C ends the sweep after the scenario being measured; a second one ends the program.
class InterruptGuard {
 public:
  InterruptGuard() {
    struct sigaction action {};
    action.sa_handler = [](int) { g_interrupted = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &before_);
  }
  ~InterruptGuard() { sigaction(SIGINT, &before_, nullptr); }

 private:
  struct sigaction before_ {};
};

std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

class Kernels final : public Verb {
 public:
  Kernels()
      : Verb("kernels", "Judge and time candidate kernels against their baselines",
             {"fastkernels create-stubs --target rms_norm   # then edit tasks/candidate/L1/rms_norm.cpp",
              "fastkernels kernels --target rms_norm", "fastkernels kernels --model llama-3.1 qwen3 --tp 1 2 --json",
              "fastkernels kernels --target silu_and_mul --filter decode --cold --explain",
              "fastkernels kernels --device cuda --target rms_norm   # tasks/candidate/L1/rms_norm.cu",
              "fastkernels kernels --self-test --target softmax   # the baseline against itself: PASSED and SAME"}) {}

  void add_flags(CLI::App& app) override {
    app.add_option("--target", select_.target, "Only this operator; without it, every operator that has a candidate");
    app.add_option("--model", select_.models,
                   "Scenarios of models whose names begin so, or `all`; llama-3.2-1b unless given");
    app.add_option("--tp", select_.tp, "Scenarios of these tensor-parallel sizes; 1 unless given")
        ->check(CLI::IsMember({1, 2, 4, 8}));
    app.add_option("--level", select_.level, "Only operators of this level")->check(CLI::Range(1, 4));
    app.add_option("--filter", select_.filter, "Only scenarios with this text in their name");
    app.add_option("--scenarios", scenario_files_, "Scenario files instead of the catalog's shapes")
        ->check(CLI::ExistingFile);
    app.add_option("--num-warmup", timing_.warmups, "Rounds before timing, in each launch")
        ->check(CLI::Range(0, 10000))
        ->capture_default_str();
    app.add_option("--num-runs", timing_.pairs, "Pairs of calls that are timed")
        ->check(CLI::Range(5, 1000000))
        ->capture_default_str();
    launches_ = app.add_option("--launches", timing_.launches,
                               "Launches of the processes that the pairs are spread over (5 unless given on a GPU)")
                    ->check(CLI::Range(1, 1000))
                    ->capture_default_str();
    app.add_flag("--cold,!--warm", timing_.cold, "Take every tensor out of the caches before each call");
    app.add_option("--timeout", timeout_s_, "Seconds a scenario may take")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--cxxflags", cxxflags_, "More flags for the candidate's compiler; recorded in the result");
    app.add_flag("--allow-libraries", allow_libraries_, "Link CUDA candidates with cuBLAS and cuBLASLt");
    app.add_option("--output-json", output_, "Result file; bench/results/kernels_<time>.json unless given");
    app.add_flag("--resume", resume_, "Go on with an interrupted run of the same --output-json");
    app.add_flag("--list", list_, "List the scenarios that would run, and run nothing");
    app.add_flag("--self-test", self_test_, "The baseline plays the candidate: everything must be PASSED and SAME");
    app.add_flag("--explain", explain_, "Say what limits each candidate and where to look first");
    app.add_option("--repro", repro_, "Repeat one judged call: SEED or SEED:CALL, as a verdict names it");
  }

  void run(const CommonOptions& common) override {
    machine_ = machine_info();
    device_ = common.device;
    if (device_ != kCpu && launches_->count() == 0) timing_.launches = kLaunchesOnGpu;
    std::vector<KernelTarget> targets = choose_targets();
    if (list_) return print_scenario_list(targets, common);
    KernelOptions options = kernel_options(common);
    ResultFile file(output_);
    if (resume_ && output_.empty()) throw UsageError("--resume needs the --output-json of the run to go on with");
    std::vector<Json> earlier;
    if (resume_) earlier = file.journal();

    ThreadPool pool(common.threads);
    KernelBench bench(pool, device_);
    InterruptGuard guard;
    Progress progress(common);
    std::vector<KernelRow> rows;
    size_t total = 0, done = 0;
    for (const KernelTarget& t : targets) total += t.scenarios.size();
    Stopwatch watch;
    for (KernelTarget& target : targets) {
      if (g_interrupted != 0) break;
      compile(target);
      for (const Scenario& scenario : target.scenarios) {
        if (g_interrupted != 0) break;
        std::string left = done == 0 ? ""
                                     : fmt::format(", {:.0f} s left", watch.elapsed_s() / static_cast<double>(done) *
                                                                          static_cast<double>(total - done));
        auto show = [&](std::string_view what) {
          progress.show(fmt::format("[{}/{}{}] {} {}: {}", done + 1, total, left, scenario.op, scenario.name, what));
        };
        KernelRow row = earlier_row(earlier, target, scenario);
        if (row.json.is_null()) {
          row = measure(target, scenario, options, bench, show);
          file.append(row.json);
        }
        rows.push_back(std::move(row));
        ++done;
      }
    }
    progress.show("");
    Json document = make_document(targets, rows, common, g_interrupted != 0);
    file.write(document, g_interrupted == 0);
    print_rows(rows, document, file.path(), common, explain_);
    if (g_interrupted != 0)
      throw Error(
          "Interrupted after {} of {} scenarios; what was measured is in {}, and --output-json {} --resume goes on.",
          done, total, file.path(), file.path());
    if (std::string failed = failure_sentence(rows); !failed.empty()) throw Error("{}", failed);
  }

 private:
  std::vector<KernelTarget> choose_targets() {
    std::vector<KernelTarget> targets;
    if (!select_.target.empty()) {
      const OperatorInfo& op = Registry::instance().at(select_.target);
      targets.push_back({&op, self_test_ ? "" : find_candidate(candidate_folder(), op, device_.kind).path});
    } else if (self_test_) {
      for (const OperatorInfo* op : Registry::instance().operators()) targets.push_back({op, ""});
    } else {
      for (const CandidateFile& c : find_candidates(candidate_folder(), device_.kind))
        targets.push_back({c.op, c.path});
      if (targets.empty()) throw Error("{}", no_candidates_sentence(candidate_folder(), device_.kind));
    }
    std::vector<Scenario> all = read_or_generate();
    for (KernelTarget& t : targets)
      for (const Scenario& s : all)
        if (s.op == t.op->name) t.scenarios.push_back(s);
    std::erase_if(targets, [](const KernelTarget& t) { return t.scenarios.empty(); });
    if (targets.empty())
      throw Error("No scenario matches; `fastkernels kernels --list --model all` shows those there are.");
    return targets;
  }

  std::vector<Scenario> read_or_generate() {
    std::vector<Scenario> all;
    if (!scenario_files_.empty()) {
      for (const std::string& path : scenario_files_)
        for (Scenario& s : read_scenarios(path))
          if (selects(select_, s)) all.push_back(std::move(s));
      return all;
    }
    bool by_default = select_.models.empty();
    if (by_default) select_.models = {"llama-3.2-1b"};
    if (select_.tp.empty()) select_.tp = {1};
    if (select_.models == std::vector<std::string>{"all"}) select_.models.clear();
    all = generate_scenarios(select_).scenarios;
    if (!by_default) return all;
    // Operators that no model has come with the cases of their contracts.
    ScenarioSelection anywhere = select_;
    anywhere.models.clear();
    for (Scenario& s : generate_scenarios(anywhere).scenarios)
      if (s.models.empty()) all.push_back(std::move(s));
    return all;
  }

  KernelOptions kernel_options(const CommonOptions& common) {
    KernelOptions options;
    options.timing = timing_;
    options.timing.threads = common.threads;
    options.timeout_s = timeout_s_;
    if (!repro_.empty()) {
      size_t colon = repro_.find(':');
      try {
        options.seed = std::stoull(repro_.substr(0, colon));
        if (colon != std::string::npos) options.last_call = std::stoi(repro_.substr(colon + 1));
      } catch (const std::exception&) {
        throw UsageError("--repro takes SEED or SEED:CALL, two numbers, not '{}'", repro_);
      }
    }
    return options;
  }

  void compile(KernelTarget& target) const {
    if (target.source_path.empty()) return;
    CompileOptions options;
    options.cxxflags = split_flags(cxxflags_);
    options.allow_libraries = allow_libraries_;
    target.source = file_text(target.source_path);
    target.compiled = compile_candidate({target.op, target.source_path}, options);
  }

  // A result of the journal that was made from the same candidate and scenario.
  static KernelRow earlier_row(const std::vector<Json>& earlier, const KernelTarget& target, const Scenario& scenario) {
    for (const Json& line : earlier)
      if (line.value("operator", "") == scenario.op && line.value("scenario", "") == scenario.name &&
          line.value("candidate", "") == target.identity())
        return {line};
    return {};
  }

  KernelRow measure(const KernelTarget& target, const Scenario& scenario, const KernelOptions& options,
                    KernelBench& bench, const std::function<void(std::string_view)>& show) const {
    KernelResult result;
    if (target.compiled && target.compiled->failure) {
      result = failed_kernel(scenario, *target.compiled->failure);
    } else if (std::string too_big = refuse_size(scenario); !too_big.empty()) {
      result = failed_kernel(scenario, {Verdict::kInvalidTask, too_big});
    } else {
      result = bench.run(scenario, target.compiled ? target.compiled->so_path : "", options, show);
    }
    KernelRow row{to_json(result)};
    row.json["candidate"] = target.identity();
    row.json["explanation"] = explain(result);
    if (!result.passed() && !result.judgement.failures.empty())
      row.json["repro"] = fmt::format("fastkernels kernels{} --target {} --model {} --filter {} --repro {}:{}",
                                      device_ == kCpu ? "" : " --device " + device_name(device_), scenario.op,
                                      scenario.models.empty() ? "all" : scenario.models.front(), scenario.name,
                                      result.judgement.seed, result.judgement.failures.front().probe.call);
    return row;
  }

  std::string refuse_size(const Scenario& scenario) const {
    MemoryPlan plan = plan_memory(scenario);
    std::string too_big = refuse_memory(scenario, plan, machine_.memory, kCopies);
    if (device_ == kCpu || !too_big.empty()) return too_big;
    DeviceRuntime& gpu = device_runtime(device_);
    return refuse_memory(scenario, plan, {gpu.facts().memory_bytes, gpu.free_bytes(), 0}, kCopies);
  }

  Json make_document(const std::vector<KernelTarget>& targets, const std::vector<KernelRow>& rows,
                     const CommonOptions& common, bool interrupted) const {
    Json candidates = Json::array();
    for (const KernelTarget& t : targets) {
      Json c = {{"operator", t.op->name}, {"level", t.op->level}, {"path", t.source_path}, {"identity", t.identity()}};
      if (t.compiled) {
        c["source"] = t.source;
        c["command"] = t.compiled->command;
        c["build_log"] = t.compiled->log;
        c["build_seconds"] = t.compiled->seconds;
        c["build_from_cache"] = t.compiled->from_cache;
      }
      candidates.push_back(std::move(c));
    }
    Json results = Json::array();
    for (const KernelRow& r : rows) results.push_back(r.json);
    return {{"schema", kKernelsSchema},
            {"version", FK_VERSION},
            {"options",
             {{"threads", common.threads},
              {"device", device_name(device_)},
              {"allow_libraries", allow_libraries_},
              {"num_runs", timing_.pairs},
              {"num_warmup", timing_.warmups},
              {"launches", timing_.launches},
              {"cold", timing_.cold},
              {"cxxflags", cxxflags_},
              {"self_test", self_test_}}},
            {"interrupted", interrupted},
            {"machine", machine_json()},
            {"candidates", candidates},
            {"results", results},
            {"aggregate", aggregate_json(rows)}};
  }

  Json machine_json() const {
    Json machine = to_json(machine_);
    if (device_ == kCpu) return machine;
    const DeviceFacts& gpu = device_runtime(device_).facts();
    machine["gpu_used"] = {{"name", gpu.name},           {"architecture", gpu.architecture},
                           {"driver", gpu.driver},       {"library", gpu.library},
                           {"clock_mhz", gpu.clock_mhz}, {"multiprocessors", gpu.multiprocessors},
                           {"l2_bytes", gpu.l2_bytes},   {"memory_bytes", gpu.memory_bytes}};
    return machine;
  }

  // Starting a process takes a GPU's driver most of a second.
  static constexpr int kLaunchesOnGpu = 5;
  // Weights once; inputs and outputs for three runners, the judge's own and the oracle's in f64.
  static constexpr double kCopies = 6;

  MachineInfo machine_;
  Device device_ = kCpu;
  CLI::Option* launches_ = nullptr;
  bool allow_libraries_ = false;
  ScenarioSelection select_;
  std::vector<std::string> scenario_files_;
  TimingOptions timing_;
  double timeout_s_ = 300;
  std::string cxxflags_, output_, repro_;
  bool resume_ = false, list_ = false, self_test_ = false, explain_ = false;
};

Kernels kernels;

}  // namespace
}  // namespace fk
