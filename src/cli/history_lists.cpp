// The lists of `history`: recent runs, one operator over the runs, the best of each operator.
#include <fmt/format.h>

#include "cli/history.h"
#include "cli/output.h"
#include "cli/table.h"
#include "core/closest.h"
#include "core/error.h"
#include "track/records_json.h"

namespace fk {
namespace {

// A list that is empty says so to people; programs get an empty list.
template <class Records>
bool print_as_json(const Records& records, const CommonOptions& common) {
  if (!common.json) return false;
  Json list = Json::array();
  for (const auto& r : records) list.push_back(to_json(r));
  print_out(dump_json(list) + "\n");
  return true;
}

Cell number(std::optional<double> value, int decimals) { return value ? Cell(*value, decimals) : Cell(); }
Cell speedup(std::optional<double> value) { return value ? Cell(Json(*value), speedup_text(value)) : Cell(); }

Cell interval(std::optional<double> low, std::optional<double> high) {
  if (!low || !high) return {};
  return {Json(fmt::format("{:.6g}..{:.6g}", *low, *high)), interval_text(low, high)};
}

Cell pass(const OperatorRecord& o) { return {fmt::format("{}/{}", o.passed, o.passed + o.failed)}; }

std::string key_metrics(const RunRecord& run) {
  auto value = [&](const char* key) -> std::optional<double> {
    auto found = run.metrics.find(key);
    return found == run.metrics.end() ? std::nullopt : std::optional(found->second);
  };
  std::string text;
  auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (auto v = value("avg_speedup")) add(fmt::format("avg_speedup {:.3f}x", *v));
  if (auto v = value("total_passed")) add(fmt::format("{:.0f} passed", *v));
  if (auto v = value("total_failed")) add(fmt::format("{:.0f} failed", *v));
  if (auto v = value("ttft_ms")) add(fmt::format("TTFT {:.3f} ms", *v));
  if (auto v = value("tpot_ms")) add(fmt::format("TPOT {:.3f} ms", *v));
  if (auto v = value("tokens_per_second")) add(fmt::format("{:.1f} tok/s", *v));
  for (const char* key :
       {"macro_score", "macro_speedup", "avg_throughput_speedup", "avg_latency_speedup", "e2e_speedup"})
    if (auto v = value(key)) add(fmt::format("{} {:.4g}", key, *v));
  if (!text.empty()) return text;
  int shown = 0;
  for (const auto& [key, v] : run.metrics)
    if (++shown <= 3) add(fmt::format("{} {:.4g}", key, v));
  return text;
}

}  // namespace

std::string interval_text(std::optional<double> low, std::optional<double> high) {
  return low && high ? fmt::format("{:.3f} .. {:.3f}", *low, *high) : "-";
}

std::string speedup_text(std::optional<double> speedup) { return speedup ? fmt::format("{:.3f}x", *speedup) : "-"; }

// A run without metrics yet is told by the results it has.
std::string key_metrics_text(const RunRecord& run, StoreReader& store) {
  std::string text = key_metrics(run);
  if (!text.empty()) return text;
  int64_t passed = 0, failed = 0;
  for (const OperatorRecord& o : store.operator_results(run.id)) passed += o.passed, failed += o.failed;
  return passed + failed == 0 ? "-" : fmt::format("{} passed, {} failed", passed, failed);
}

void check_operator(StoreReader& store, const std::string& op) {
  RunQuery one;
  one.limit = 1;
  if (!store.operator_history(op, one).empty()) return;
  std::vector<std::string> names;
  for (const OperatorName& n : store.operators()) names.push_back(n.op);
  if (std::string meant = did_you_mean(op, names); !meant.empty())
    throw Error("No run in {} has results of the operator {}{}", store.path(), op, meant);
  throw Error("No run in {} has results of the operator {}; `fastkernels kernels --target {}` makes some.",
              store.path(), op, op);
}

void print_runs(StoreReader& store, const RunQuery& query, const CommonOptions& common) {
  std::vector<RunRecord> runs = store.runs(query);
  if (print_as_json(runs, common)) return;
  std::vector<Table::Column> columns = {{"timestamp", "TIMESTAMP"},
                                        {"run_name", "RUN NAME"},
                                        {"key_metrics", "KEY METRICS"},
                                        {"status", "STATUS"},
                                        {"run_id", "RUN ID"}};
  if (common.csv)
    for (const char* key : {"tier", "git_commit", "device", "device_name", "avg_speedup", "total_passed",
                            "total_failed", "ttft_ms", "tpot_ms"})
      columns.push_back({key, key});
  Table table(columns);
  for (const RunRecord& r : runs) {
    std::vector<Cell> row = {utc_text(r.started_us), r.name, key_metrics_text(r, store), r.status, r.id};
    if (common.csv) {
      for (const std::string& word :
           {r.tier, r.environment.git_commit, r.environment.device, r.environment.device_name()})
        row.emplace_back(word);
      for (const char* key : {"avg_speedup", "total_passed", "total_failed", "ttft_ms", "tpot_ms"})
        row.push_back(r.metrics.contains(key) ? Cell(r.metrics.at(key), 6) : Cell());
    }
    table.add_row(std::move(row));
  }
  if (!common.csv && runs.empty()) return print_out("No run matches.\n");
  table.print(common);
  if (common.text() && !common.quiet && static_cast<int64_t>(runs.size()) == query.limit)
    print_out(fmt::format("\nThe newest {}; --limit shows more, `fastkernels history show {}` one.\n", runs.size(),
                          runs[0].id));
}

void print_operator_history(StoreReader& store, const RunQuery& query, const CommonOptions& common) {
  check_operator(store, query.op);
  std::vector<OperatorRecord> rows = store.operator_history(query.op, query);
  if (print_as_json(rows, common)) return;
  Table table({{"timestamp", "TIMESTAMP"},
               {"run_name", "RUN NAME"},
               {"speedup", "SPEEDUP"},
               {"interval", "99 % INTERVAL"},
               {"pass", "PASS"},
               {"err_ratio", "ERR_RATIO"},
               {"run_id", "RUN ID"}});
  for (const OperatorRecord& o : rows)
    table.add_row({utc_text(o.started_us), o.run_name, speedup(o.speedup), interval(o.low, o.high), pass(o),
                   number(o.err_ratio, 2), o.run_id});
  if (!common.csv && rows.empty()) return print_out("No run matches.\n");
  table.print(common);
}

void print_best(StoreReader& store, const RunQuery& query, const CommonOptions& common) {
  if (!query.op.empty()) check_operator(store, query.op);
  std::vector<OperatorRecord> rows = store.best(query);
  if (print_as_json(rows, common)) return;
  Table table({{"operator", "OPERATOR"},
               {"speedup", "SPEEDUP"},
               {"interval", "99 % INTERVAL"},
               {"confirmed", "CONFIRMED"},
               {"pass", "PASS"},
               {"err_ratio", "ERR_RATIO"},
               {"timestamp", "TIMESTAMP"},
               {"run_name", "RUN NAME"},
               {"run_id", "RUN ID"}});
  for (const OperatorRecord& o : rows)
    table.add_row({o.op, speedup(o.speedup), interval(o.low, o.high), o.confirmed == "yes" ? "yes" : "no", pass(o),
                   number(o.err_ratio, 2), utc_text(o.started_us), o.run_name, o.run_id});
  if (!common.csv && rows.empty()) return print_out("No correct candidate was timed yet.\n");
  table.print(common);
}

}  // namespace fk
