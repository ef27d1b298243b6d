// kernels: judges and times candidates against their baselines, operator by operator.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <map>
#include <utility>

#include "bench/kernels/confirm.h"
#include "bench/kernels/kernel_bench.h"
#include "bench/kernels/result_file.h"
#include "bench/scenarios/generate.h"
#include "bench/scenarios/memory_plan.h"
#include "candidate/compile.h"
#include "candidate/compile_cache.h"
#include "candidate/toolchain.h"
#include "cli/candidate_options.h"
#include "cli/candidate_words.h"
#include "cli/exit_code.h"
#include "cli/folder_watch.h"
#include "cli/interrupt.h"
#include "cli/kernels_baseline.h"
#include "cli/kernels_changes.h"
#include "cli/kernels_report.h"
#include "cli/kernels_repro.h"
#include "cli/kernels_resume.h"
#include "cli/kernels_targets.h"
#include "cli/operator_map.h"
#include "cli/output.h"
#include "cli/record_options.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/bench_folder.h"
#include "core/device_runtime.h"
#include "core/error.h"
#include "core/loose_json.h"
#include "core/output_file.h"
#include "measure/host_load.h"
#include "measure/machine_info.h"
#include "measure/timer.h"
#include "models/family.h"
#include "sandbox/address_layout.h"
#include "track/records_json.h"
#include "track/sha256.h"

namespace fk {
namespace {

// A candidate's source need not be UTF-8, and compilers quote it; JSON must be. The artifacts keep the bytes.
Json in_utf8(Json json) {
  try {
    static_cast<void>(json.dump());
    return json;
  } catch (const Json::type_error&) {
    return parse_loosely(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
}

class Kernels final : public Verb {
 public:
  Kernels()
      : Verb("kernels", "Judge and time candidate kernels against their baselines",
             {"fastkernels create-stubs --target rms_norm   # then edit tasks/candidate/L1/rms_norm.cpp",
              "fastkernels kernels --target rms_norm", "fastkernels kernels --model llama-3.1 qwen3 --tp 1 2 --json",
              "fastkernels kernels --watch --check --target rms_norm   # right or wrong, at every save",
              "fastkernels kernels --target silu_and_mul --filter decode --cold --explain",
              "fastkernels kernels --map --model qwen3   # what there is to write candidates for",
              "fastkernels kernels --device cuda --target rms_norm   # tasks/candidate/L1/rms_norm.cu",
              "fastkernels kernels --self-test --target softmax   # the baseline against itself: PASSED and SAME"}) {}

  void add_flags(FlagSet& flags) override {
    flags.option("--target", select_.target, "Only this operator; without it, every operator that has a candidate");
    flags.option("--model", select_.models,
                 "Scenarios of models whose names begin with this, or `all`; llama-3.2-1b unless given");
    flags
        .option("--category", select_.categories,
                fmt::format("Scenarios of models of these categories ({}), all of them unless --model is given",
                            fmt::join(known_categories(), ", ")))
        .type_name("CATEGORY");
    flags.option("--tp", select_.tp, "Scenarios of these tensor-parallel sizes; 1 unless given")
        .one_of({"1", "2", "4", "8"});
    flags.option("--level", select_.level, "Only operators of this level").range(1, 4);
    flags.option("--filter", select_.filter,
                 "Only scenarios with these whole words in their names: decode-1 is not decode-128; '=NAME' takes the "
                 "one of exactly this name");
    flags.option("--scenarios", scenario_files_, "Scenario files instead of the catalog's shapes").existing_file();
    flags.option("--num-warmup", timing_.warmups, "Rounds before timing, in each launch")
        .range(0, 10000)
        .show_default();
    runs_ = &flags
                 .option("--num-runs", timing_.pairs,
                         "Pairs of calls that are timed. Unless given, on a CPU a scenario takes about three seconds: "
                         "fewer pairs of long calls, more while the interval is wide")
                 .range(5, 1000000)
                 .show_default();
    launches_ =
        &flags.option("--launches", timing_.launches, "Launches of the processes that the pairs are spread over")
             .range(1, 1000)
             .show_default();
    flags.flag("--cold,!--warm", timing_.cold,
               "Evict every tensor from the caches before each sample; on a GPU, before each call");
    flags.option("--timeout", timeout_s_, "Seconds a scenario may take").check(seconds_complaint).show_default();
    add_cxxflags(flags, cxxflags_, "More flags for the candidate's compiler; recorded in the result");
    flags.flag("--allow-libraries", allow_libraries_, "Link CUDA candidates with cuBLAS and cuBLASLt");
    flags.option("--output-json", output_, "Result file [" + bench_folder() + "/results/kernels_<time>.json]");
    flags.flag("--resume", resume_, "Resume an interrupted run of the same --output-json");
    flags.flag("--list", list_,
               "List the scenarios that would run (without candidates: all there are), and run nothing");
    flags.flag("--map", map_, "Show which operators each model uses, and the other way round; run nothing");
    flags.flag("--self-test", self_test_, "Use the baseline as the candidate: everything must be PASSED and SAME");
    flags.flag("--explain", explain_, "Say what limits each candidate and where to look first");
    flags.flag("--check", check_, "Judge only: right or wrong in about a second; times nothing and stores nothing");
    flags.flag("--watch", watch_, "Run again whenever a candidate is saved, and say what changed; Ctrl-C ends");
    flags.flag("--fail-fast", fail_fast_, "Stop at the first scenario that fails");
    add_record_options(flags, record_);
    flags.option("--repro", repro_, "Repeat one judged call: SEED or SEED:CALL, as a verdict names it");
    flags.flag(
        "--in-process", in_process_,
        "With --repro SEED:CALL: the candidate's calls in this process, without a sandbox, for gdb or a sanitizer");
  }

  void run(const CommonOptions& common) override {
    if (map_) return print_operator_map(select_, common);
    check_flags(common);
    machine_ = machine_info();
    device_ = common.device;
    threads_ = common.threads;
    threads_flag_ = threads_ != std::min(usable_cores(), kMaxThreads);
    ThreadPool pool(common.threads);
    KernelBench bench(pool, device_);
    if (watch_) return watch(common, bench);
    std::vector<KernelTarget> targets = choose(list_);
    if (list_) return print_scenario_list(targets, common);
    if (std::string failed = run_once(targets, common, bench, nullptr).failed; !failed.empty())
      throw Error("{}", failed);
  }

 private:
  struct Finished {
    std::vector<KernelRow> rows;
    std::string failed;  // why the command fails; empty where it does not
  };

  std::vector<KernelTarget> choose(bool list) {
    chosen_ = select_;
    return choose_targets(chosen_, {device_.kind, scenario_files_, self_test_, list, !repro_.empty()});
  }

  void check_flags(const CommonOptions& common) const {
    if (resume_ && output_.empty()) throw UsageError("--resume needs the --output-json of the interrupted run");
    if (resume_ && is_special_file(output_))
      throw UsageError("--resume: {} is not a regular file, so nothing was kept beside it; leave --resume out",
                       output_);
    if (check_ && resume_) throw UsageError("--check stores nothing that could be resumed; leave --resume out");
    if (check_ && !(record_.name.empty() && record_.tags.empty() && record_.note.empty()))
      throw UsageError("--check stores no run that --name, --tag or --note could describe; leave them out");
    if (check_ && !repro_.empty()) throw UsageError("--check and --repro exclude each other; give one of them");
    if (!watch_) return;
    if (resume_ || self_test_ || list_)
      throw UsageError("--watch runs candidates again and again; leave --resume, --self-test and --list out");
    if (!common.text()) throw UsageError("--watch prints tables for people; leave --json and --csv out");
  }

  // Judges and times the candidates after every save, until Ctrl-C.
  void watch(const CommonOptions& common, KernelBench& bench) {
    control_c_ends_with(kOk);
    FolderWatch folder(candidate_folder());
    std::map<std::string_view, std::string> known;  // by operator: identity of the version judged last
    std::vector<KernelRow> last;                    // of every scenario
    for (bool first = true;; first = false) {
      try {
        std::vector<KernelTarget> targets = choose(false);
        require_compiler(targets);
        {
          InterruptGuard guard([] { return static_cast<int>(kOk); });
          for (KernelTarget& target : targets) compile(target, guard);
        }
        std::erase_if(targets, [&](const KernelTarget& t) { return known[t.op->name] == t.version(); });
        for (const KernelTarget& t : targets) known[t.op->name] = t.version();
        if (!targets.empty()) {
          if (!first) print_out(fmt::format("\n{:%H:%M:%S}\n", fmt::localtime(std::time(nullptr))));
          Finished run = run_once(targets, common, bench, &folder);
          print_text(changes_since(last, run.rows));
          remember(last, run.rows);
          // Saved again during the run: that version was not judged completely.
          if (folder.changed())
            for (const KernelTarget& t : targets) known.erase(t.op->name);
        }
      } catch (const UsageError&) {
        throw;
      } catch (const Error& error) {
        if (first) throw;
        fail(kFailure, error.what());  // a file may be missing while an editor replaces it
      }
      Progress progress(common);
      progress.show(fmt::format("watching {}; save a candidate to judge it again, Ctrl-C ends", candidate_folder()));
      InterruptGuard guard([&] {
        progress.show("");
        return static_cast<int>(kOk);
      });
      guard.interruptible([&] { folder.wait(); });
    }
  }

  static void remember(std::vector<KernelRow>& last, const std::vector<KernelRow>& rows) {
    for (const KernelRow& row : rows) {
      std::erase_if(last, [&](const KernelRow& old) {
        return old.json["operator"] == row.json["operator"] && old.json["scenario"] == row.json["scenario"];
      });
      last.push_back(row);
    }
  }

  // `watched`: the run stops if something was saved meanwhile.
  Finished run_once(std::vector<KernelTarget>& targets, const CommonOptions& common, KernelBench& bench,
                    FolderWatch* watched) {
    require_compiler(targets);
    KernelOptions options = kernel_options(common);
    // A check writes no file and no history unless asked to.
    std::optional<ResultFile> file;
    if (!check_ || !output_.empty()) file.emplace(output_);
    EarlierRun earlier = resume_ ? EarlierRun(*file, options_json(common)) : EarlierRun();
    Recorder recorder(check_ ? RecorderOptions{.enabled = false, .db = {}, .journal = {}}
                             : recorder_options(record_, file->journal_path(), true),
                      warn_on_stderr);
    if (!check_) recorder.start(named(make_run(targets, common, earlier), record_), resume_);

    Progress progress(common);
    Finished run;
    std::vector<KernelRow>& rows = run.rows;
    Json load;
    KernelsReport report(targets, rows, common, {.explain = explain_, .timed = !check_});
    size_t total = 0, done = 0;
    for (const KernelTarget& t : targets) total += t.scenarios.size();
    Json not_run = Json::array();
    auto finish = [&](bool early) -> std::string {
      progress.show("");
      std::string failed = failure_sentence(rows, self_test_, fail_fast_);
      Json document = make_document(targets, rows, common, early);
      if (!load.is_null()) document["load"] = load;
      if (!not_run.empty()) document["not_run"] = not_run;
      if (!check_) {
        document["run"] = run_json(recorder.run(), early ? "interrupted" : failed.empty() ? "finished" : "failed");
        record_summary(recorder, targets, document, failed);
      }
      std::string unwritten = file ? file->try_write(document, !early && (recorder.stored() || record_.off)) : "";
      report.finish(document, file && unwritten.empty() ? file->path() : "");
      if (!unwritten.empty()) return unwritten;
      if (!early) return failed;
      return fmt::format(
          "Interrupted after {} of {} scenarios{}.", done, total,
          check_
              ? ""
              : fmt::format("; what was measured is in {0}, and --output-json {0} --resume resumes it", file->path()));
    };
    InterruptGuard guard([&] {
      return exit_code_of([&] {
        std::string why = finish(true);
        return why.empty() || watched != nullptr ? kOk : fail(kFailure, why);
      });
    });
    Stopwatch watch;
    bool stopped = false, saved = false;
    for (KernelTarget& target : targets) {
      if (saved) break;
      if (!stopped && !target.compiled) compile(target, guard);
      if (!stopped && target.compiled && common.text() && !common.quiet) {
        progress.show("");
        show_warnings(target.compiled->warnings);
      }
      if (!stopped) record_candidate(recorder, target);
      for (const Scenario& scenario : target.scenarios) {
        if (stopped) {
          not_run.push_back({{"operator", scenario.op}, {"scenario", scenario.name}});
          report.not_run(scenario.op, scenario.name);
          continue;
        }
        std::string left = done == 0 ? ""
                                     : fmt::format(", {:.0f} s left", watch.elapsed_s() / static_cast<double>(done) *
                                                                          static_cast<double>(total - done));
        auto show = [&](std::string_view what) {
          if (interrupted()) return;
          // All requested pairs are timed, and maybe more: see --num-runs.
          if (what.ends_with("timing 100 %")) what = "timing more pairs, since the interval is still wide";
          progress.show(fmt::format("[{}/{}{}] {} {}: {}", done + 1, total, left, scenario.op, scenario.name, what));
        };
        KernelRow row{earlier.row(scenario.op, scenario.name, target.identity())};
        if (row.json.is_null()) {
          if (load.is_null() && !(target.compiled && target.compiled->failure)) load = load_json(common);
          row = measure(target, scenario, options, {bench, recorder, guard, show});
          progress.show("");
          show_printed(row.json);
          recorder.add(row.json);
          if (!row.passed() && !row.without_credit())
            recorder.artifact(fmt::format("errors/{}/{}.txt", scenario.op, scenario.name), error_text(row.json));
        } else {
          recorder.add(row.json);  // the store may be another one than the interrupted run's
        }
        rows.push_back(std::move(row));
        ++done;
        progress.show("");
        report.row_added();
        stopped = fail_fast_ && !rows.back().passed() && !rows.back().without_credit();
        saved = watched != nullptr && watched->changed();
        if (saved) break;
      }
    }
    run.failed = finish(saved && done < total);
    return run;
  }

  // Measures the load of this machine if times depend on it, and warns.
  Json load_json(const CommonOptions& common) const {
    if (check_ || !repro_.empty() || device_ != kCpu) return nullptr;
    HostLoad load = host_load();
    std::string warning = load_warning(load, common.threads);
    if (!warning.empty() && !common.quiet) warn_on_stderr(warning + ".");
    return {{"busy_cores", load.busy_cores},
            {"cores", load.cores},
            {"average_1min", load.average_1min},
            {"warning", warning}};
  }

  KernelOptions kernel_options(const CommonOptions& common) {
    KernelOptions options;
    options.other_cache_state = explain_;
    options.timing = timing_;
    options.timing.sample_on_s = 2;
    if (!runs_->given() && !launches_->given()) options.timing.aim_s = kAimS;
    // Every process then has its own addresses, and launches differ by 1 %.
    if (!launches_->given() && device_ == kCpu && !FixedAddresses::possible()) options.timing.launches *= 2;
    options.timing.threads = common.threads;
    options.timeout_s = timeout_s_;
    if (!repro_.empty()) set_repro(options, repro_);
    options.in_process = in_process_;
    if (in_process_ && (!options.last_call || self_test_ || device_ != kCpu))
      throw UsageError("--in-process repeats a call of a candidate on the CPU: it needs --repro SEED:CALL");
    if (check_) options.last_call = std::numeric_limits<int>::max();  // the whole judgement, without timing
    return options;
  }

  CompileOptions compile_options() const {
    CompileOptions options;
    options.cxxflags = split_flags(cxxflags_);
    options.allow_libraries = allow_libraries_;
    return options;
  }

  // A missing compiler is not a verdict on a candidate.
  void require_compiler(const std::vector<KernelTarget>& targets) const {
    for (const KernelTarget& target : targets) {
      if (target.source_path.empty()) continue;
      DeviceKind device = CandidateFile{target.op, target.source_path}.device();
      if (std::optional<Failure> missing = toolchain_for(device, compile_options()).missing)
        throw Error("{}", missing->sentence);
    }
  }

  void compile(KernelTarget& target, InterruptGuard& guard) const {
    if (target.source_path.empty()) return;
    target.source = file_text(target.source_path).value_or("");
    target.compiled = guard.interruptible([&] {
      return compile_candidate({target.op, target.source_path}, compile_options());
    });
  }

  // With the id of the resumed run, if there is one.
  RunRecord make_run(const std::vector<KernelTarget>& targets, const CommonOptions& common,
                     const EarlierRun& earlier) const {
    RunRecord run = new_run("kernel", common, machine_);
    earlier.go_on(run);
    run.name = "kernels";
    for (size_t i = 0; i < targets.size() && i < 3; ++i) run.name += fmt::format(" {}", targets[i].op->name);
    if (targets.size() > 3) run.name += fmt::format(" and {} more", targets.size() - 3);
    run.mode = !repro_.empty() ? "repro" : self_test_ ? "self-test" : "";
    Json options = options_json(common);
    for (const auto& [key, value] : options.items())
      run.params[key] = value.is_string() ? value.get<std::string>() : value.dump();
    run.params["timeout"] = fmt::format("{}", timeout_s_);
    run.params["filter"] = chosen_.filter;
    run.params["models"] = fmt::format("{}", fmt::join(chosen_.models, " "));
    run.params["tp"] = fmt::format("{}", fmt::join(chosen_.tp, " "));
    std::erase_if(run.params, [](const auto& p) { return p.second.empty(); });
    if (self_test_) run.tags["self_test"] = "true";
    return run;
  }

  static void record_candidate(Recorder& recorder, const KernelTarget& target) {
    if (!target.compiled) return;
    recorder.add(candidate_events({std::string(target.op->name), target.source_path, target.source,
                                   target.compiled->command, target.compiled->log}));
  }

  static std::string error_text(const Json& row) {
    std::string text = fmt::format("{} {}\n{}: {}\n", row.value("operator", ""), row.value("scenario", ""),
                                   row.value("verdict", ""), row.value("sentence", ""));
    if (row.contains("repro")) text += fmt::format("again: {}\n", row["repro"].get<std::string>());
    return text + row.value("explanation", "");
  }

  // As in the result file: ended, and without the machine, which the file has already.
  static Json run_json(RunRecord run, std::string_view status) {
    run.status = status;
    run.ended_us = now_us();
    run.environment.details.erase("machine");
    return to_json(run);
  }

  static void record_summary(Recorder& recorder, const std::vector<KernelTarget>& targets, const Json& document,
                             const std::string& failed) {
    std::map<std::string, std::string> sources;
    for (const KernelTarget& t : targets)
      if (t.compiled) sources[std::string(t.op->name)] = sha256_hex(t.source);
    recorder.add(kernel_summary_events(document["results"], document["aggregate"], sources, now_us()));
    recorder.artifact("results/kernels.json", dump_json(document) + "\n");
    recorder.end(document["run"]["status"].get<std::string>(), failed);
  }

  struct Means {
    KernelBench& bench;
    Recorder& recorder;
    InterruptGuard& guard;
    std::function<void(std::string_view)> show;
  };

  KernelRow measure(const KernelTarget& target, const Scenario& scenario, const KernelOptions& options,
                    const Means& with) const {
    KernelResult result;
    if (target.compiled && target.compiled->failure) {
      result = failed_kernel(scenario, *target.compiled->failure);
    } else if (std::string too_big = refuse_size(scenario); !too_big.empty()) {
      result = failed_kernel(scenario, {Verdict::kInvalidTask, too_big});
    } else {
      std::string library = target.compiled ? target.compiled->so_path : "";
      bool again = false;
      auto run = [&](const KernelOptions& o) {
        std::string before = std::exchange(again, true) ? "a new best, once more: " : "";
        return with.guard.interruptible([&] {
          return with.bench.run(scenario, library, o,
                                [&](std::string_view what) { with.show(before + std::string(what)); });
        });
      };
      // Self-tests, runs with a chosen seed and runs that are not stored set no best.
      bool may_be_best = !self_test_ && !check_ && repro_.empty() && !record_.off;
      double best = may_be_best ? std::max(1.0, with.recorder.best_speedup(scenario.op, scenario.name).value_or(1)) : 0;
      result = may_be_best ? measure_and_confirm(run, options, best, interrupted) : run(options);
    }
    KernelRow row{to_json(result)};
    row.json["candidate"] = target.identity();
    row.json["explanation"] = check_ ? "" : explain(result);
    if (result.timing && !self_test_ && only_oracles(result.timing->baseline_dispatches))
      row.json["baseline_is_oracle"] = true;
    if (!result.passed() && !row.without_credit()) row.json["repro"] = repro_command(result, repro_flags());
    row.json = in_utf8(std::move(row.json));
    return row;
  }

  ReproFlags repro_flags() const {
    return {device_,         threads_flag_ ? std::optional(threads_) : std::nullopt,
            scenario_files_, timing_.cold,
            self_test_,      allow_libraries_,
            cxxflags_};
  }

  Json options_json(const CommonOptions& common) const {
    return {{"threads", common.threads},
            {"device", device_name(device_)},
            {"allow_libraries", allow_libraries_},
            {"num_runs", timing_.pairs},
            {"num_warmup", timing_.warmups},
            {"launches", timing_.launches},
            {"cold", timing_.cold},
            {"cxxflags", cxxflags_},
            {"self_test", self_test_},
            {"check", check_}};
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
        c["warnings"] = t.compiled->warnings;
        c["build_seconds"] = t.compiled->seconds;
        c["build_from_cache"] = t.compiled->from_cache;
        c["build_protections"] = to_json(t.compiled->protections);
      }
      candidates.push_back(in_utf8(std::move(c)));
    }
    Json results = Json::array();
    for (const KernelRow& r : rows) results.push_back(r.json);
    return {{"schema", kKernelsSchema},
            {"version", FK_VERSION},
            {"options", options_json(common)},
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

  static constexpr double kAimS = 1.8;  // of a timing on a CPU, so that a scenario takes about three seconds
  // Weights once; inputs and outputs for three runners, the judge's own and the oracle's in f64.
  static constexpr double kCopies = 6;

  MachineInfo machine_;
  Device device_ = kCpu;
  const Flag* launches_ = nullptr;
  const Flag* runs_ = nullptr;
  bool allow_libraries_ = false, threads_flag_ = false;
  int threads_ = 1;
  ScenarioSelection select_;  // as the flags say
  ScenarioSelection chosen_;  // with defaults filled in
  std::vector<std::string> scenario_files_;
  TimingOptions timing_;
  RecordOptions record_;
  double timeout_s_ = 300;
  std::string cxxflags_, output_, repro_;
  bool resume_ = false, list_ = false, map_ = false, self_test_ = false, explain_ = false, in_process_ = false;
  bool check_ = false, watch_ = false, fail_fast_ = false;
};

Kernels kernels_verb;

}  // namespace
}  // namespace fk
