// The lists of `history`: recent runs, one operator over the runs, the best of each operator.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "cli/history.h"
#include "cli/output.h"
#include "cli/table.h"
#include "core/closest.h"
#include "core/error.h"
#include "track/comparable.h"
#include "track/records_json.h"

namespace fk {
namespace {

// Text output says that a list is empty; JSON and CSV print an empty list.
template <class Records>
bool print_as_json(const Records& records, const CommonOptions& common) {
  if (!common.json) return false;
  Json list = Json::array();
  for (const auto& r : records) list.push_back(to_json(r));
  print_out(dump_json(list) + "\n");
  return true;
}

Cell speedup(std::optional<double> value) { return value ? Cell(Json(*value), speedup_text(value)) : Cell(); }

Cell word(const std::string& text) { return text.empty() ? Cell() : Cell(text); }

// Short hash that identifies a candidate: of the source if it was stored, else of the build.
Cell candidate(const OperatorRecord& o) {
  if (o.candidate.empty() && o.source_sha256.empty()) return {};
  bool not_built = o.candidate.starts_with("not built");
  std::string shown = o.self_test()              ? o.candidate
                      : !o.source_sha256.empty() ? o.source_sha256.substr(0, 8)
                      : not_built                ? "not built"
                                                 : o.candidate.substr(0, 16);
  return {Json(o.source_sha256.empty() ? o.candidate : o.source_sha256), shown};
}

// The verdicts of a run's operators together: "FASTER", or "FASTER 2, FAILED 1".
std::string run_verdict(const std::vector<OperatorRecord>& operators) {
  std::map<std::string, int> counts;
  for (const OperatorRecord& o : operators) ++counts[o.verdict()];
  if (counts.size() == 1) return counts.begin()->first;
  std::string text;
  for (const char* verdict : {"FAILED", "FASTER", "SLOWER", "UNRESOLVED", "NOT TIMED", "NO CREDIT"})
    if (counts.contains(verdict)) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", verdict, counts[verdict]);
  return text;
}

Cell run_candidate(const std::vector<OperatorRecord>& operators) {
  if (operators.empty()) return {};
  if (operators.size() == 1) return candidate(operators[0]);
  Json all = Json::array();
  for (const OperatorRecord& o : operators) all.push_back(candidate(o).value);
  return {Json(fmt::format("{}", fmt::join(all.get<std::vector<std::string>>(), " "))),
          fmt::format("{} candidates", operators.size())};
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
  if (auto v = value("output_throughput")) add(fmt::format("{:.1f} output tok/s", *v));
  if (auto v = value("avg_latency")) add(fmt::format("latency {:.4g} s", *v));
  if (auto v = value("mean_ttft_ms"); v && !value("ttft_ms")) add(fmt::format("mean TTFT {:.3f} ms", *v));
  for (const char* key : {"throughput_speedup", "latency_speedup", "macro_score", "macro_speedup",
                          "avg_throughput_speedup", "avg_latency_speedup", "e2e_speedup"})
    if (auto v = value(key)) add(fmt::format("{} {:.4g}", key, *v));
  if (!text.empty()) return text;
  int shown = 0;
  for (const auto& [key, v] : run.metrics)
    if (++shown <= 3) add(fmt::format("{} {:.4g}", key, v));
  return text;
}

// A run, with the measurements and the verdict of each of its operators.
void print_runs_as_json(StoreReader& store, const std::vector<RunRecord>& runs) {
  Json list = Json::array();
  for (const RunRecord& r : runs) {
    std::vector<OperatorRecord> operators = store.operator_results(r.id);
    Json json = to_json(r);
    json["verdict"] = run_verdict(operators);
    json["operators"] = Json::array();
    for (const OperatorRecord& o : operators)
      json["operators"].push_back({{"operator", o.op},
                                   {"candidate", o.candidate},
                                   {"source_sha256", o.source_sha256},
                                   {"verdict", o.verdict()}});
    list.push_back(std::move(json));
  }
  print_out(dump_json(list) + "\n");
}

}  // namespace

std::string interval_text(std::optional<double> low, std::optional<double> high) {
  return low && high ? fmt::format("{:.3f} .. {:.3f}", *low, *high) : "-";
}

std::string speedup_text(std::optional<double> speedup) { return speedup ? fmt::format("{:.3f}x", *speedup) : "-"; }

// A run without metrics yet is described by its results.
std::string key_metrics_text(const RunRecord& run, const std::vector<OperatorRecord>& operators) {
  std::string text = key_metrics(run);
  int64_t passed = 0, failed = 0, timed = 0;
  for (const OperatorRecord& o : operators) passed += o.passed, failed += o.failed, timed += o.timed;
  if (text.empty() && passed + failed > 0) text = fmt::format("{} passed, {} failed", passed, failed);
  if (!text.empty() && timed < passed) text += fmt::format(", {} not timed", passed - timed);
  return text.empty() ? "-" : text;
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
  if (common.json) return print_runs_as_json(store, runs);
  // A run's id begins with its time.
  std::vector<Table::Column> columns = {{"timestamp", "TIMESTAMP", false, 4}, {"run_name", "RUN NAME"},
                                        {"key_metrics", "KEY METRICS"},       {"verdict", "VERDICT"},
                                        {"candidate", "CANDIDATE", false, 2}, {"filter", "FILTER", false, 3},
                                        {"status", "STATUS", false, 1},       {"run_id", "RUN ID", true}};
  if (common.csv)
    for (const char* key : {"tier", "git_commit", "device", "device_name", "avg_speedup", "total_passed",
                            "total_failed", "ttft_ms", "tpot_ms"})
      columns.push_back({key, key});
  Table table(columns);
  for (const RunRecord& r : runs) {
    std::vector<OperatorRecord> operators = store.operator_results(r.id);
    auto filter = r.params.find("filter");
    std::vector<Cell> row = {utc_text(r.started_us),
                             r.name,
                             key_metrics_text(r, operators),
                             word(run_verdict(operators)),
                             run_candidate(operators),
                             filter == r.params.end() ? Cell() : word(filter->second),
                             r.status,
                             r.id};
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

namespace {

// In JSON and CSV the ends of an interval are separate columns.
std::vector<Table::Column> operator_columns(std::vector<Table::Column> first, const CommonOptions& common) {
  const bool has_device = first.back().key == "device";
  first.push_back({"speedup", "SPEEDUP"});
  if (common.csv)
    first.insert(first.end(), {{"low", "LOW"}, {"high", "HIGH"}});
  else
    first.push_back({"interval", "99 % INTERVAL"});
  first.insert(first.end(), {{"verdict", "VERDICT"},
                             {"pass", "PASS", false, 1},
                             {"err_ratio", "ERR_RATIO", false, 1},
                             {"candidate", "CANDIDATE", false, 2},
                             {"filter", "FILTER", false, 3},
                             {"run_id", "RUN ID", true}});
  if (common.csv)
    for (const char* key : {"timed", "scenario_set", "timed_set", "confirmed", "device", "device_name"})
      if (!has_device || std::string_view(key) != "device") first.push_back({key, key});
  return first;
}

std::vector<Cell> operator_row(std::vector<Cell> row, const OperatorRecord& o, const CommonOptions& common,
                               bool has_device = false) {
  row.push_back(speedup(o.speedup));
  if (common.csv)
    for (std::optional<double> end : {o.low, o.high}) row.push_back(Cell(end, 6));
  else
    row.emplace_back(o.low && o.high ? Cell(interval_text(o.low, o.high)) : Cell());
  row.insert(row.end(), {Cell(std::string(o.verdict())), pass(o), Cell(o.err_ratio, 2), candidate(o), word(o.filter),
                         Cell(o.run_id)});
  if (common.csv) {
    row.emplace_back(o.timed);
    for (const std::string* text : {&o.scenario_set, &o.timed_set, &o.confirmed, &o.device, &o.device_name})
      if (!has_device || text != &o.device) row.push_back(word(*text));
  }
  return row;
}

std::string group_title(const ComparableRuns& g) {
  std::string where = g.device_name.empty() ? g.device : g.device_name;
  if (g.timed_set.empty()) return fmt::format("No mean to compare, on {}\n", where);
  return fmt::format("Mean of {} scenario{} ({}), on {}\n", g.timed, g.timed == 1 ? "" : "s", g.timed_set, where);
}

}  // namespace

void print_operator_history(StoreReader& store, const RunQuery& query, const CommonOptions& common) {
  check_operator(store, query.op);
  std::vector<OperatorRecord> rows = store.operator_history(query.op, query);
  if (print_as_json(rows, common)) return;
  auto table_of = [&](const std::vector<OperatorRecord>& list) {
    Table table(operator_columns({{"timestamp", "TIMESTAMP", false, 4}, {"run_name", "RUN NAME"}}, common));
    for (const OperatorRecord& o : list) table.add_row(operator_row({utc_text(o.started_us), o.run_name}, o, common));
    return table;
  };
  if (common.csv) return table_of(rows).print(common);
  if (rows.empty()) return print_out("No run matches.\n");
  bool first = true;
  for (const ComparableRuns& group : comparable_runs(rows)) {
    print_out((first ? "" : "\n") + group_title(group));
    table_of(group.runs).print(common);
    first = false;
  }
}

void print_best(StoreReader& store, const RunQuery& query, const CommonOptions& common) {
  if (!query.op.empty()) check_operator(store, query.op);
  std::vector<OperatorRecord> rows = store.best(query);
  if (print_as_json(rows, common)) return;
  Table table(operator_columns({{"operator", "OPERATOR"}, {"scenarios", "SCENARIOS"}, {"device", "DEVICE"}}, common));
  for (const OperatorRecord& o : rows)
    table.add_row(operator_row({o.op, Cell(fmt::format("{} ({})", o.timed, o.timed_set)), o.device}, o, common, true));
  if (!common.csv && rows.empty())
    return print_out(
        "No best yet: none of these runs has a correct candidate whose whole interval lies above 1 and that was "
        "confirmed.\n");
  table.print(common);
}

}  // namespace fk
