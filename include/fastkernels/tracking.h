// Tracking: stores runs of your own programs beside those of fastkernels.
//
//   fk::tracking::Run run = fk::tracking::start_run("my sweep", {{"block", "128"}});
//   run.log_kernel("rms_norm", 1, source);
//   run.log_metrics({{"my_metric", 1.5}});
//   // The end of the scope ends the run: "finished", or "failed" if an exception leaves the scope.
//
// Logging never throws and never ends a program. If a run cannot be stored, one warning is printed on standard error
// and the run is written to a journal (`fastkernels history import` reads it). Link with fastkernels-tracking.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fk::tracking {

using Pairs = std::map<std::string, std::string>;
using Metrics = std::map<std::string, double>;

struct Options {
  std::string db;  // empty: $FASTKERNELS_HOME/history.db or ~/.local/share/fastkernels/history.db
  std::string experiment = "fastkernels";
  std::string journal;  // empty: results/run_<id>.jsonl where `kernels` leaves its results
};

// One scenario of one operator. Only a PASSED one has a speed.
struct KernelBenchResult {
  std::string op, scenario;
  int level = 1;
  std::string verdict = "PASSED";
  std::string sentence;  // why it is not PASSED
  std::vector<std::string> models;
  std::string dtype;
  std::string candidate;                                                           // identity of what was measured
  std::optional<double> err_ratio, baseline_ns, candidate_ns, speedup, low, high;  // low and high: 99 % interval
};

struct EvalReport {
  double macro_speedup = 0, macro_correctness = 0, macro_coverage = 0, macro_score = 0;
  Metrics more;  // avg_throughput_speedup, alignment_rate, ...
};

class Run {
 public:
  Run(Run&& other) noexcept;
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  Run& operator=(Run&&) = delete;

  const std::string& id() const noexcept;

  void log_params(const Pairs& params) noexcept;
  void set_tags(const Pairs& tags) noexcept;
  void log_metrics(const Metrics& metrics, int64_t step = 0) noexcept;
  void log_artifact(std::string_view path, std::string_view bytes) noexcept;

  void log_kernel(std::string_view op, int level, std::string_view code) noexcept;  // source, as kernels/{op}.cpp
  void log_kernel_bench(const KernelBenchResult& result) noexcept;
  void log_eval(const EvalReport& report) noexcept;
  void log_e2e(const Metrics& results, std::string_view type) noexcept;  // "throughput", "latency", "serve"

  // "finished", "failed" or "interrupted". Nothing can be logged afterwards.
  void end(std::string_view status = "finished", std::string_view error = "") noexcept;

 private:
  friend Run start_run(const std::string&, const Pairs&, const Pairs&, const Options&);
  struct State;
  explicit Run(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// `tags["tier"]` says what kind of run it is: kernel (unless given), e2e, eval, ttft or agent.
Run start_run(const std::string& name, const Pairs& params = {}, const Pairs& tags = {}, const Options& options = {});

struct FoundRun {
  std::string id, name, status, tier;
  int64_t started_us = 0;  // since 1970, UTC
  Pairs params, tags;
  Metrics metrics;  // the newest value of each
};

// The newest runs that MLflow's filter grammar selects: `metrics.avg_speedup > 1.1 and tags.tier = "kernel"`. Throws
// std::runtime_error with the position where the filter cannot be read, and where there is no history.
std::vector<FoundRun> query_runs(const std::string& experiment = "fastkernels", const std::string& filter = "",
                                 int64_t max = 100, const std::string& db = "");

}  // namespace fk::tracking
