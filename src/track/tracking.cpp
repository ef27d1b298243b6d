// Implements include/fastkernels/tracking.h with the recorder and the store.
#include <fastkernels/tracking.h>

#include <cmath>
#include <cstdio>
#include <exception>

#include "core/bench_folder.h"
#include "core/error.h"
#include "track/environment.h"
#include "track/recorder.h"
#include "track/sha256.h"

namespace fk::tracking {
namespace {

void warn(const std::string& sentence) {
  std::string line = fmt::format("fastkernels: warning: {}\n", sentence);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

Json known(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

// As `kernels` writes it, so that everything that reads its rows reads these.
Json row_of(const KernelBenchResult& r) {
  Json row = {{"operator", r.op},
              {"level", r.level},
              {"scenario", r.scenario.empty() ? "default" : r.scenario},
              {"models", r.models},
              {"workload", {{"dtype", r.dtype}}},
              {"verdict", r.verdict},
              {"sentence", r.sentence},
              {"judgement", {{"worst_ratio", known(r.err_ratio)}}},
              {"candidate", r.candidate.empty() ? "unnamed" : r.candidate}};
  if (r.speedup)
    row["timing"] = {{"speedup", *r.speedup},
                     {"speedup_low", known(r.low)},
                     {"speedup_high", known(r.high)},
                     {"baseline", {{"median_ns", known(r.baseline_ns)}}},
                     {"candidate", {{"median_ns", known(r.candidate_ns)}}}};
  return row;
}

// The geometric mean of what passed, as in the store while a run is in progress.
Json aggregate_of(const Json& rows, const std::string& op) {
  double speed = 0, low = 0, high = 0;
  int n = 0;
  for (const Json& row : rows) {
    if ((!op.empty() && row["operator"] != op) || row["verdict"] != "PASSED" || !row.contains("timing")) continue;
    const Json& t = row["timing"];
    double ratio = t["speedup"].get<double>();
    speed += std::log(ratio);
    low += std::log(t["speedup_low"].is_null() ? ratio : t["speedup_low"].get<double>());
    high += std::log(t["speedup_high"].is_null() ? ratio : t["speedup_high"].get<double>());
    ++n;
  }
  if (n == 0) return {{"geometric_mean", 0.0}, {"low", 0.0}, {"high", 0.0}};
  return {{"geometric_mean", std::exp(speed / n)}, {"low", std::exp(low / n)}, {"high", std::exp(high / n)}};
}

}  // namespace

struct Run::State {
  explicit State(RecorderOptions options) : recorder(std::move(options), warn) {}

  Recorder recorder;
  Json rows = Json::array();
  std::map<std::string, std::string> sources;
  int exceptions = std::uncaught_exceptions();
  bool ended = false, warned = false;

  // An error in a call of the user's program is one warning, never an exception.
  template <class Body>
  void guarded(Body&& body) noexcept {
    try {
      if (ended) throw Error("The run {} has ended; nothing can be logged to it.", recorder.run().id);
      body();
    } catch (const std::exception& e) {
      if (!warned) warn(e.what());
      warned = true;
    } catch (...) {
      warned = true;
    }
  }
};

Run::Run(std::unique_ptr<State> state) : state_(std::move(state)) {}
Run::Run(Run&& other) noexcept = default;

Run::~Run() {
  if (!state_ || state_->ended) return;
  bool left_by_exception = std::uncaught_exceptions() > state_->exceptions;
  end(left_by_exception ? "failed" : "finished", left_by_exception ? "An exception left the run's scope." : "");
}

const std::string& Run::id() const noexcept { return state_->recorder.run().id; }

void Run::log_params(const Pairs& params) noexcept {
  state_->guarded([&] { state_->recorder.add(pairs_event("params", params)); });
}

void Run::set_tags(const Pairs& tags) noexcept {
  state_->guarded([&] { state_->recorder.add(pairs_event("tags", tags)); });
}

void Run::log_metrics(const Metrics& metrics, int64_t step) noexcept {
  state_->guarded([&] {
    std::vector<MetricPoint> points;
    std::string refused;
    for (const auto& [key, value] : metrics) {
      if (std::isfinite(value) && !key.empty())
        points.push_back({key, value, step, now_us()});
      else
        refused = key;
    }
    if (!points.empty()) state_->recorder.add(metrics_event(points));
    if (points.size() < metrics.size()) throw Error("The metric '{}' is not finite and was left out.", refused);
  });
}

void Run::log_artifact(std::string_view path, std::string_view bytes) noexcept {
  state_->guarded([&] { state_->recorder.artifact(path, bytes); });
}

void Run::log_kernel(std::string_view op, int level, std::string_view code) noexcept {
  state_->guarded([&] {
    state_->sources[std::string(op)] = sha256_hex(code);
    state_->recorder.artifact(fmt::format("kernels/{}.cpp", op), code);
    state_->recorder.add(pairs_event("params", {{fmt::format("{}_level", op), std::to_string(level)}}));
  });
}

void Run::log_kernel_bench(const KernelBenchResult& result) noexcept {
  state_->guarded([&] {
    if (result.op.empty()) throw Error("A result needs the name of its operator.");
    for (const auto& number :
         {result.err_ratio, result.baseline_ns, result.candidate_ns, result.speedup, result.low, result.high})
      if (number && !std::isfinite(*number))
        throw Error("The result of {} has a number that is not finite.", result.op);
    if (result.speedup && !(*result.speedup > 0)) throw Error("The speed-up of {} is not positive.", result.op);
    Json row = row_of(result);
    state_->recorder.add(row);
    state_->rows.push_back(std::move(row));
    if (result.verdict != "PASSED" && !result.sentence.empty())
      state_->recorder.artifact(fmt::format("errors/{}/{}.txt", result.op, result.scenario), result.sentence + "\n");
  });
}

void Run::log_eval(const EvalReport& report) noexcept {
  Metrics metrics = report.more;
  metrics["macro_speedup"] = report.macro_speedup;
  metrics["macro_correctness"] = report.macro_correctness;
  metrics["macro_coverage"] = report.macro_coverage;
  metrics["macro_score"] = report.macro_score;
  log_metrics(metrics);
}

void Run::log_e2e(const Metrics& results, std::string_view type) noexcept {
  log_metrics(results);
  state_->guarded([&] {
    state_->recorder.add(pairs_event("tags", {{"e2e_type", std::string(type)}}));
    state_->recorder.artifact(fmt::format("results/e2e_{}.json", type), dump_json(Json(results)) + "\n");
  });
}

void Run::end(std::string_view status, std::string_view error) noexcept {
  state_->guarded([&] {
    if (status != "finished" && status != "failed" && status != "interrupted")
      throw Error("A run ends finished, failed or interrupted, not '{}'.", status);
    if (!state_->rows.empty()) {
      Json operators = Json::object();
      for (const Json& row : state_->rows) {
        auto op = row["operator"].get<std::string>();
        if (!operators.contains(op)) operators[op] = aggregate_of(state_->rows, op);
      }
      state_->recorder.add(
          kernel_summary_events(state_->rows, {{"operators", operators}, {"overall", aggregate_of(state_->rows, "")}},
                                state_->sources, now_us()));
    }
    state_->recorder.end(status, error);
    state_->ended = true;
  });
}

Run start_run(const std::string& name, const Pairs& params, const Pairs& tags, const Options& options) {
  RunRecord run;
  run.started_us = now_us();
  run.id = make_run_id(run.started_us);
  run.name = name.empty() ? "run" : name;
  run.experiment = options.experiment;
  run.params = params;
  run.tags = tags;
  auto tier = tags.find("tier");
  run.tier = tier == tags.end() || tier->second.empty() ? "kernel" : tier->second;
  run.environment = collect_environment("cpu", Json::object());
  RecorderOptions recorder;
  recorder.db = options.db;
  recorder.journal =
      options.journal.empty() ? fmt::format("{}/results/run_{}.jsonl", bench_folder(), run.id) : options.journal;
  auto state = std::make_unique<Run::State>(std::move(recorder));
  state->recorder.start(std::move(run));
  return Run(std::move(state));
}

std::vector<FoundRun> query_runs(const std::string& experiment, const std::string& filter, int64_t max,
                                 const std::string& db) {
  RunQuery query;
  query.experiment = experiment;
  query.where = filter;
  query.limit = max;
  std::vector<FoundRun> found;
  for (RunRecord& r : open_store_reader(db)->runs(query))
    found.push_back(
        {r.id, r.name, r.status, r.tier, r.started_us, std::move(r.params), std::move(r.tags), std::move(r.metrics)});
  return found;
}

}  // namespace fk::tracking
