#include "cli/ttft_suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "bench/ttft/suite_plan.h"
#include "candidate/compile_cache.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/suite_report.h"
#include "core/environment_variable.h"
#include "core/error.h"
#include "measure/settle.h"

namespace fk {
namespace {

const std::set<std::string> kSuiteFlags = {"--suite", "--mode", "--config", "--seeds", "--python"};

bool has_any(const Flag& flag, const std::set<std::string>& names) {
  const std::vector<std::string> own = flag.name_list();
  return std::any_of(own.begin(), own.end(), [&](const std::string& name) { return names.contains(name); });
}

// Before anything is stored.
std::vector<SuiteConfig> checked(std::vector<SuiteConfig> configs) {
  for (const SuiteConfig& config : configs)
    if (!config.device.empty()) parse_device(config.device);
  return configs;
}

class Suite {
 public:
  Suite(const SuiteOptions& options, const RecordOptions& record, const CandidateOptions& candidates,
        const CommonOptions& common)
      : options_(options),
        common_(common),
        configs_(checked(read_suite(options.file))),
        mode_(!options.mode.empty()                             ? options.mode
              : configs_.size() == 1 || !options.config.empty() ? "single"
                                                                : "all-configs"),
        rows_(plan_suite(configs_, suite_mode_of(mode_), options.config)),
        recorder_(recorder_options(record, results_path("ttft_suite", ".jsonl"), false), warn_on_stderr) {
    kept_ = !record.off;
    setting_.common = common;
    for (const GivenFlag& flag : common.given) {
      if (flag.from != kCommandLine) continue;  // the suite says more of a measurement than the user's config file
      setting_.device_given = setting_.device_given || flag.name == "--device";
      setting_.threads_given = setting_.threads_given || flag.name == "--threads";
    }
    setting_.db = record.db;
    setting_.candidates = candidates;
    setting_.seeds = options.seeds;
    setting_.python = options.python;
    if (setting_.python.empty()) setting_.python = environment_variable("FASTKERNELS_PYTHON");
    if (setting_.python.empty()) setting_.python = "python3";
    if (!candidates.disabled) setting_.judged = candidate_records(candidates, common, record.db);
    recorder_.start(named(make_run(), record));
    recorder_.artifact("suite/ttft.yaml", file_text(options.file).value_or(""));
  }

  void run() {
    Progress progress(common_);
    InterruptGuard guard([&] {
      progress.show("");
      return exit_code_of([&] {
        finish("interrupted");
        return fail(kFailure, fmt::format("interrupted after {} of {} rows{}", results_.size(), rows_.size(),
                                          kept_ && !results_.empty() ? "; they are in the history" : ""));
      });
    });
    for (const SuiteRow& row : rows_) {
      SuiteResult result = guard.interruptible([&] { return measured(row, progress); });
      compare(result);
      if (result.out_of_memory) memory_.ran_out(row, result.record.peak_memory_bytes.value_or(0));
      recorder_.add(ttft_event(result.record));
      results_.push_back(std::move(result));
    }
    progress.show("");
    finish("finished");
    const auto failed = std::count_if(results_.begin(), results_.end(), [](const auto& r) { return r.failed(); });
    if (failed > 0)
      throw Error("{} of {} rows failed; the column note says why{}.", failed, results_.size(),
                  kept_ ? ", and the history has their last words" : "");
    if (std::all_of(results_.begin(), results_.end(), [](const auto& r) { return r.skipped; }))
      throw Error("All {} rows were skipped; the column note says why.", results_.size());
  }

 private:
  RunRecord make_run() const {
    RunRecord run = new_run("ttft", common_, machine_info());
    run.name = "ttft suite " + options_.file;
    run.mode = mode_;
    run.params["suite"] = options_.file;
    run.params["rows"] = std::to_string(rows_.size());
    run.params["seeds"] = std::to_string(options_.seeds);
    if (!options_.config.empty()) run.params["suite_config"] = options_.config;
    return run;
  }

  SuiteResult measured(const SuiteRow& row, Progress& progress) {
    const std::string title = fmt::format("row {} of {}: {}, {}", results_.size() + 1, rows_.size(), row.config->name,
                                          SuiteResult::label_of(row));
    if (!row.skipped.empty()) return skipped_row(row, setting_, row.skipped);
    if (const std::string why = memory_.reason(row); !why.empty()) return skipped_row(row, setting_, why);
    progress.show(title + ": waiting for a quiet machine");
    const Device device = setting_.device_of(*row.config);
    const Settled settled = settle_of(device).wait(row.config->settle_seconds, setting_.threads_of(*row.config));
    int64_t gpu_peak = 0;
    SuiteResult result = run_row(
        row, setting_, [&](const std::string& stage) { progress.show(title + ": " + stage); },
        [&] {
          if (const std::optional<GpuState> gpu = gpu_state(device)) gpu_peak = std::max(gpu_peak, gpu->used_bytes);
        });
    if (result.skipped) return result;
    result.record.details["settled"] = settled.to_json();
    if (gpu_peak > 0) result.record.details["gpu_peak_used_bytes"] = gpu_peak;
    if (!settled.ready) {
      std::string& note = result.record.note;
      note += (note.empty() ? "" : "; ") + settled.warning;
    }
    return result;
  }

  // One for each device: the state it began with.
  const Settle& settle_of(Device device) { return settles_.try_emplace(device_name(device), device).first->second; }

  void compare(SuiteResult& result) const {
    if (!result.outputs) return;
    for (const SuiteResult& earlier : results_)
      if (earlier.row.config == result.row.config && earlier.outputs && earlier.not_comparable.empty())
        return compare_with(result, earlier);
  }

  void finish(const char* status) {
    std::vector<MetricPoint> points;
    auto count = [&](const char* key, auto&& is) {
      points.push_back({key, static_cast<double>(std::count_if(results_.begin(), results_.end(), is)), 0, now_us()});
    };
    count("rows", [](const SuiteResult&) { return true; });
    count("rows_failed", [](const SuiteResult& r) { return r.failed(); });
    count("rows_skipped", [](const SuiteResult& r) { return r.skipped; });
    recorder_.add(metrics_event(points));
    const std::string json = dump_json(suite_json(results_, mode_, options_.file)) + "\n";
    recorder_.artifact("results/ttft_suite.json", json);
    recorder_.end(status);
    if (common_.json)
      print_out(json);
    else
      print_suite(results_, mode_, common_);
  }

  const SuiteOptions& options_;
  const CommonOptions& common_;
  std::vector<SuiteConfig> configs_;
  std::string mode_;
  std::vector<SuiteRow> rows_;
  SuiteSetting setting_;
  bool kept_ = true;  // in the history
  Recorder recorder_;
  MemoryHistory memory_;
  std::map<std::string, Settle> settles_;
  std::vector<SuiteResult> results_;
};

}  // namespace

void add_suite_options(FlagSet& flags, SuiteOptions& options) {
  flags.option("--suite", options.file, "Run the configurations of this file, each path in a process of its own")
      .type_name("FILE");
  flags
      .option(
          "--mode", options.mode,
          "Of --suite. single: one configuration; all-configs: each with its paths; search-sweep: the compiled path "
          "at several budgets; ur-test: all configurations, all paths, then the sweep; ur-test-fast: without it")
      .one_of(suite_mode_names());
  flags.option("--config", options.config, "Of --suite: only the configuration of this name").type_name("NAME");
  flags.option("--seeds", options.seeds, "Of --suite: searches of the compiled path, each with a seed of its own")
      .range(1, 1000)
      .show_default();
  flags
      .option(
          "--python", options.python,
          "Of --suite: a Python with PyTorch and transformers, for the paths hf and torch_compile [FASTKERNELS_PYTHON, "
          "or python3]")
      .type_name("PROGRAM");
}

void check_suite_flags(const FlagSet& flags) {
  const std::set<std::string> others = {
      "--db",       "--no-history",      "--name",           "--tag", "--note", "--no-candidate-kernels",
      "--cxxflags", "--allow-libraries", "--allow-incorrect"};
  for (const Flag& flag : flags.flags())
    if (flag.given() && !flag.from_config() && flag.group() != kCommonGroup && !has_any(flag, kSuiteFlags) &&
        !has_any(flag, others))
      throw UsageError("--suite takes this from its file; write it there, and leave {} out", flag.name_list()[0]);
}

void check_no_suite_flags(const FlagSet& flags) {
  for (const Flag& flag : flags.flags())
    if (flag.given() && !flag.from_config() && has_any(flag, kSuiteFlags))
      throw UsageError("{} belongs to --suite; name the file of a suite, too", flag.name_list()[0]);
}

void run_suite(const SuiteOptions& options, const RecordOptions& record, const CandidateOptions& candidates,
               const CommonOptions& common) {
  Suite(options, record, candidates, common).run();
}

}  // namespace fk
