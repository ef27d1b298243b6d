// Store: the history of all runs, as one interface. track/sqlite/ implements it; a build without SQLite has none.
//
// Every call throws Error where the file cannot be read or written; the recorder turns that into one warning. Every
// writing call is one transaction.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "track/records.h"

namespace fk {

// Which runs. Empty fields select everything; all given ones must hold.
struct RunQuery {
  std::string op;      // has results of this operator
  std::string model;   // has results of a model whose name begins with this
  std::string device;  // is the device ("cpu", "cuda:0"), or part of its name
  std::string tier, status, experiment;
  std::optional<int64_t> since_us, until_us;  // started in [since, until)
  std::string where;                          // MLflow's filter grammar (track/filter.h)
  std::string name;                           // its name holds this text
  std::vector<std::string> tags;              // it has all of these: "key", or "key=value"
  std::string text;                           // somewhere in id, name, tags, commit or operators
  bool oldest_first = false;
  int64_t limit = 20;  // negative: all
  int64_t offset = 0;
};

inline RunQuery newest_runs(int64_t limit) {
  RunQuery query;
  query.limit = limit;
  return query;
}

struct OperatorName {
  std::string op;
  int level = 0;
  int64_t runs = 0;
};

struct ModelName {
  std::string model;
  int64_t runs = 0;  // with `ttft` results of it
};

class StoreReader {
 public:
  virtual ~StoreReader() = default;

  virtual const std::string& path() const = 0;
  // Changes whenever any process changes the store. For pages that show a run in progress.
  virtual int64_t change_stamp() = 0;

  // Newest first. With params, tags and newest metrics, without environment.details.
  virtual std::vector<RunRecord> runs(const RunQuery& query) = 0;
  virtual int64_t count_runs(const RunQuery& query) = 0;
  // One run with everything but its results.
  virtual std::optional<RunRecord> run(std::string_view id) = 0;
  // The full id of an abbreviated one: its first or last characters, or "last". Throws Error if none or several match.
  virtual std::string resolve_run(std::string_view abbreviation) = 0;
  virtual std::vector<MetricPoint> metric_points(std::string_view run_id, std::string_view key = "") = 0;  // all steps

  // By operator, then in the order measured.
  virtual std::vector<KernelRecord> kernel_results(std::string_view run_id, std::string_view op = "") = 0;
  virtual std::optional<KernelDetail> kernel_detail(std::string_view run_id, std::string_view op,
                                                    std::string_view scenario) = 0;
  virtual std::vector<TtftRecord> ttft_results(std::string_view run_id) = 0;

  virtual std::vector<OperatorName> operators() = 0;  // that have results, by name
  virtual std::vector<OperatorRecord> operator_results(std::string_view run_id) = 0;
  // One operator over the runs, newest first; query.op is replaced.
  virtual std::vector<OperatorRecord> operator_history(std::string_view op, const RunQuery& query) = 0;
  // One scenario of an operator over the runs, newest first. An empty scenario: all scenarios of the newest
  // query.limit runs.
  virtual std::vector<KernelRecord> scenario_history(std::string_view op, std::string_view scenario,
                                                     const RunQuery& query) = 0;
  // Of each operator (or of one) the largest speed-up among the runs selected, by operator, then the largest set of
  // scenarios first: one for each set of scenarios and device, as only means over the same scenarios can be compared.
  // Only runs that are correct, confirmed, and faster than the baseline with the whole interval.
  virtual std::vector<OperatorRecord> best(const RunQuery& query) = 0;
  // The largest confirmed speed-up of a scenario on a device ("cpu", "cuda:0") of this name.
  virtual std::optional<double> best_speedup(std::string_view op, std::string_view scenario, std::string_view device,
                                             std::string_view device_name) = 0;

  virtual std::vector<ModelName> ttft_models() = 0;
  // The results of one model (exact name) over the runs, newest first; the limit counts runs.
  virtual std::vector<TtftRecord> ttft_history(std::string_view model, const RunQuery& query) = 0;

  virtual std::vector<ArtifactRecord> artifacts(std::string_view run_id) = 0;
  virtual std::string artifact(std::string_view sha256) = 0;  // its bytes, checked against the hash
};

class Store : public StoreReader {
 public:
  // Throws Error if a run with this id exists, so that runs are never merged by accident.
  virtual void begin_run(const RunRecord& run) = 0;
  // Continues an existing run: its status is "running" again, and it must be sent to servers again.
  virtual void reopen_run(std::string_view run_id) = 0;
  virtual void end_run(std::string_view run_id, std::string_view status, std::string_view error, int64_t ended_us) = 0;

  virtual void set_params(std::string_view run_id, const std::map<std::string, std::string>& params) = 0;
  virtual void set_tags(std::string_view run_id, const std::map<std::string, std::string>& tags) = 0;
  virtual void log_metrics(std::string_view run_id, const std::vector<MetricPoint>& points) = 0;

  // Replaces an earlier result of the same operator and scenario (or path, model and config) of the run. The operator's
  // summary is updated in the same transaction; set_operator() replaces it by the exact one.
  virtual void add_kernel_result(const KernelRecord& result, const KernelDetail& detail) = 0;
  virtual void add_ttft_result(const TtftRecord& result) = 0;
  virtual void set_operator(const OperatorRecord& summary) = 0;

  virtual ArtifactRecord add_artifact(std::string_view run_id, std::string_view path, std::string_view bytes) = 0;

  // With all its rows; artifacts that no other run has are removed too.
  virtual void remove_run(std::string_view run_id) = 0;

  // Runs that a server does not have completely, oldest first.
  virtual std::vector<std::string> unmirrored(std::string_view target) = 0;
  // Runs that were started with this server as their target, and that it does not have completely.
  virtual std::vector<std::string> pending_mirrors(std::string_view target) = 0;
  virtual void forget_mirrors(std::string_view target) = 0;                             // the server lost everything
  virtual std::string mirror_id(std::string_view target, std::string_view run_id) = 0;  // empty: it has none of it
  virtual void set_mirror(std::string_view target, std::string_view run_id, std::string_view remote_id,
                          bool complete) = 0;

  // Several calls as one transaction, for imports: the destructor rolls back what was not committed.
  class Batch {
   public:
    virtual ~Batch() = default;
    virtual void commit() = 0;
  };
  virtual std::unique_ptr<Batch> batch() = 0;
};

// Empty, or the sentence why this build keeps no history.
std::string store_unavailable();

// $FASTKERNELS_HOME/history.db, $XDG_DATA_HOME/fastkernels/history.db or ~/.local/share/fastkernels/history.db.
std::string default_store_path();

// Opens or creates the store and migrates an older schema. Empty path: the default one.
std::unique_ptr<Store> open_store(const std::string& path = "");
// For reading only; throws Error where there is no such file. Works on media that cannot be written.
std::unique_ptr<StoreReader> open_store_reader(const std::string& path = "");

// A new run id: the time and a random tail.
std::string make_run_id(int64_t now_us);
int64_t now_us();
std::string utc_text(int64_t time_us);  // "2026-11-15 07:32:28"

}  // namespace fk
