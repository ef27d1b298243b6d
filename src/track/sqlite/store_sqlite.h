// The store in one SQLite file (WAL, foreign keys), with the artifacts' bytes in a folder beside it.
#pragma once

#include <functional>

#include "track/sqlite/database.h"
#include "track/sqlite/run_select.h"
#include "track/store.h"

namespace fk {

class SqliteStore final : public Store {
 public:
  SqliteStore(const std::string& path, Database::Mode mode);

  const std::string& path() const override { return path_; }
  int64_t change_stamp() override;

  std::vector<RunRecord> runs(const RunQuery& query) override;
  int64_t count_runs(const RunQuery& query) override;
  std::optional<RunRecord> run(std::string_view id) override;
  std::string resolve_run(std::string_view abbreviation) override;
  std::vector<MetricPoint> metric_points(std::string_view run_id, std::string_view key) override;
  std::vector<KernelRecord> kernel_results(std::string_view run_id, std::string_view op) override;
  std::optional<KernelDetail> kernel_detail(std::string_view run_id, std::string_view op,
                                            std::string_view scenario) override;
  std::vector<TtftRecord> ttft_results(std::string_view run_id) override;
  std::vector<OperatorName> operators() override;
  std::vector<OperatorRecord> operator_results(std::string_view run_id) override;
  std::vector<OperatorRecord> operator_history(std::string_view op, const RunQuery& query) override;
  std::vector<KernelRecord> scenario_history(std::string_view op, std::string_view scenario,
                                             const RunQuery& query) override;
  std::vector<OperatorRecord> best(const RunQuery& query) override;
  std::optional<double> best_speedup(std::string_view op, std::string_view scenario, std::string_view device,
                                     std::string_view device_name) override;
  std::vector<ModelName> ttft_models() override;
  std::vector<TtftRecord> ttft_history(std::string_view model, const RunQuery& query) override;
  std::vector<ArtifactRecord> artifacts(std::string_view run_id) override;
  std::string artifact(std::string_view sha256) override;

  void begin_run(const RunRecord& run) override;
  void reopen_run(std::string_view run_id) override;
  void end_run(std::string_view run_id, std::string_view status, std::string_view error, int64_t ended_us) override;
  void set_params(std::string_view run_id, const std::map<std::string, std::string>& params) override;
  void set_tags(std::string_view run_id, const std::map<std::string, std::string>& tags) override;
  void log_metrics(std::string_view run_id, const std::vector<MetricPoint>& points) override;
  void add_kernel_result(const KernelRecord& result, const KernelDetail& detail) override;
  void add_ttft_result(const TtftRecord& result) override;
  void set_operator(const OperatorRecord& summary) override;
  ArtifactRecord add_artifact(std::string_view run_id, std::string_view path, std::string_view bytes) override;
  void remove_run(std::string_view run_id) override;
  std::vector<std::string> unmirrored(std::string_view target) override;
  std::vector<std::string> pending_mirrors(std::string_view target) override;
  void forget_mirrors(std::string_view target) override;
  std::string mirror_id(std::string_view target, std::string_view run_id) override;
  void set_mirror(std::string_view target, std::string_view run_id, std::string_view remote_id, bool complete) override;
  std::unique_ptr<Batch> batch() override;

 private:
  int64_t number_of(std::string_view run_id);     // throws Error where there is no such run
  void write(const std::function<void()>& body);  // as one transaction that moves the stamp
  template <class Record>
  std::vector<Record> results_of_runs(const std::string& columns, const char* table, const char* condition,
                                      std::initializer_list<std::string_view> values, const RunQuery& query);
  void read_pairs(int64_t run, RunRecord& record);  // params, tags, newest metrics
  void summarise_operator(int64_t run, std::string_view op);
  void set_scenarios(int64_t run, std::string_view op);  // of its summary
  void set_models(int64_t run, const std::vector<std::string>& models);
  std::vector<std::string> operator_names();
  std::string artifact_file(std::string_view sha256) const;

  std::string path_, artifact_folder_;
  Database database_;
};

}  // namespace fk
