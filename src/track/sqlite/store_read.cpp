// Reading: runs, their results, and one operator or model over many runs.
#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "track/sha256.h"
#include "track/sqlite/record_sql.h"
#include "track/sqlite/store_sqlite.h"

namespace fk {
namespace {

std::string run_columns() {
  std::string list = "r.run";
  RunRecord none;
  run_fields(none, ColumnNames{"r.", list});
  machine_fields(none, ColumnNames{"r.", list});
  return list;
}
const std::string kRunColumns = run_columns();

int64_t read_run(Statement& s, RunRecord& r) {
  int64_t number = s.integer();
  run_fields(r, RowReader{s});
  machine_fields(r, RowReader{s});
  return number;
}

// The fields of its run, in the order of owner_fields(), then the fields of the result.
const std::string kOperatorColumns =
    "r.run_id, r.name, r.status, r.started_us, r.git_commit, r.device, iif(r.device = 'cpu' OR r.gpu_name = '',"
    " r.cpu_name, r.gpu_name),"
    " coalesce((SELECT p.value FROM params p WHERE p.run = r.run AND p.key = 'filter'), ''), " +
    own_columns<OperatorRecord>("o.");
const std::string kKernelColumns = "r.run_id, r.started_us, " + own_columns<KernelRecord>("x.");
const std::string kTtftColumns = "r.run_id, r.name, r.started_us, r.git_commit, " + own_columns<TtftRecord>("x.");

template <class Record>
void read_result(Statement& s, Record& record) {
  owner_fields(record, RowReader{s});
  own_fields(record, RowReader{s});
}

template <class T>
std::vector<T> rows(Statement s, void (*read)(Statement&, T&)) {
  std::vector<T> list;
  while (s.step()) read(s, list.emplace_back());
  return list;
}

template <class Record>
std::vector<Record> results(Statement s) {
  return rows<Record>(std::move(s), read_result);
}

}  // namespace

void SqliteStore::read_pairs(int64_t run, RunRecord& record) {
  auto read = [&](const char* sql, auto& pairs) {
    for (Statement s = database_.query(sql, run); s.step();) {
      std::string key = s.text();
      RowReader{s}("", pairs[key]);
    }
  };
  read("SELECT key, value FROM params WHERE run = ?", record.params);
  read("SELECT key, value FROM tags WHERE run = ?", record.tags);
  // By step, so that the newest comes last and stays.
  read("SELECT key, value FROM metrics WHERE run = ? ORDER BY key, step", record.metrics);
}

std::vector<RunRecord> SqliteStore::runs(const RunQuery& query) {
  RunSelect select = run_select(query);
  Statement s = database_.prepare("SELECT " + kRunColumns + " FROM runs r WHERE " + select.where + select.order);
  select.bind_where(s);
  select.bind_order(s);
  std::vector<RunRecord> records;
  while (s.step()) {
    RunRecord& r = records.emplace_back();
    int64_t number = read_run(s, r);
    read_pairs(number, r);
  }
  return records;
}

int64_t SqliteStore::count_runs(const RunQuery& query) {
  RunSelect select = run_select(query);
  Statement s = database_.prepare("SELECT count(*) FROM runs r WHERE " + select.where);
  select.bind_where(s);
  return s.step() ? s.integer() : 0;
}

std::optional<RunRecord> SqliteStore::run(std::string_view id) {
  Statement s = database_.query("SELECT " + kRunColumns + ", r.environment FROM runs r WHERE r.run_id = ?", id);
  if (!s.step()) return std::nullopt;
  RunRecord r;
  int64_t number = read_run(s, r);
  r.environment.details = parse_json(s.text(), "environment of a run");
  read_pairs(number, r);
  return r;
}

std::string SqliteStore::resolve_run(std::string_view abbreviation) {
  if (abbreviation == "last") {
    Statement s = database_.query("SELECT run_id FROM runs ORDER BY started_us DESC, run DESC LIMIT 1");
    if (!s.step()) throw Error("The history {} is empty; `fastkernels kernels` fills it.", path_);
    return s.text();
  }
  if (run(abbreviation)) return std::string(abbreviation);
  // substr, not LIKE: an id may contain a wildcard of LIKE. The prefix is a range, which the index supports.
  std::vector<std::string> found;
  auto collect = [&](Statement s) {
    while (s.step() && found.size() < 4) found.push_back(s.text());
  };
  std::string head(abbreviation);
  if (!head.empty()) {
    collect(database_.query("SELECT run_id FROM runs WHERE run_id >= ? AND run_id < ? LIMIT 4", head, head + "\xff"));
    collect(database_.query(
        "SELECT run_id FROM runs WHERE substr(run_id, -?) = ? AND NOT (run_id >= ? AND run_id < ?) LIMIT 4",
        static_cast<int64_t>(head.size()), head, head, head + "\xff"));
  }
  if (found.empty()) {  // a name that --name gave, of the newest such run
    Statement named =
        database_.query("SELECT run_id FROM runs WHERE name = ? ORDER BY started_us DESC, run DESC LIMIT 1", head);
    if (named.step()) return named.text();
    throw Error("No run in {} has the id or the name '{}'; `fastkernels history` lists them.", path_, abbreviation);
  }
  if (found.size() > 1)
    throw Error("'{}' fits several runs ({} and {}{}); give more of the id.", abbreviation, found[0], found[1],
                found.size() > 2 ? " and more" : "");
  return found.front();
}

std::vector<MetricPoint> SqliteStore::metric_points(std::string_view run_id, std::string_view key) {
  return rows<MetricPoint>(
      database_.query("SELECT key, value, step, time_us FROM metrics WHERE run = ?1 AND (?2 = '' OR key = ?2)"
                      " ORDER BY key, step",
                      number_of(run_id), key),
      [](Statement& s, MetricPoint& p) {
        p.key = s.text();
        p.value = s.real();
        p.step = s.integer();
        p.time_us = s.integer();
      });
}

std::vector<KernelRecord> SqliteStore::kernel_results(std::string_view run_id, std::string_view op) {
  return results<KernelRecord>(
      database_.query("SELECT " + kKernelColumns +
                          " FROM kernel_results x JOIN runs r USING (run) WHERE x.run = ?1 AND (?2 = '' OR x.op = ?2)"
                          " ORDER BY x.op, x.result",
                      number_of(run_id), op));
}

std::optional<KernelDetail> SqliteStore::kernel_detail(std::string_view run_id, std::string_view op,
                                                       std::string_view scenario) {
  Statement s = database_.query(
      "SELECT d.detail, d.samples, d.control_samples FROM kernel_details d JOIN kernel_results k USING (result)"
      " WHERE k.run = ? AND k.op = ? AND k.scenario = ?",
      number_of(run_id), op, scenario);
  if (!s.step()) return std::nullopt;
  KernelDetail d;
  d.detail = parse_json(s.text(), "detail of a result");
  d.samples = parse_json(s.text(), "samples of a result");
  d.control_samples = parse_json(s.text(), "samples of a result");
  return d;
}

std::vector<TtftRecord> SqliteStore::ttft_results(std::string_view run_id) {
  return results<TtftRecord>(database_.query(
      "SELECT " + kTtftColumns + " FROM ttft_results x JOIN runs r USING (run) WHERE x.run = ? ORDER BY x.result",
      number_of(run_id)));
}

// From one name to the next through the index, instead of reading every row of every run.
std::vector<std::string> SqliteStore::operator_names() {
  return rows<std::string>(
      database_.query("WITH RECURSIVE n(op) AS (SELECT min(op) FROM operators UNION ALL"
                      " SELECT (SELECT min(op) FROM operators WHERE op > n.op) FROM n WHERE n.op IS NOT NULL)"
                      " SELECT op FROM n WHERE op IS NOT NULL"),
      [](Statement& s, std::string& name) { name = s.text(); });
}

std::vector<OperatorName> SqliteStore::operators() {
  return rows<OperatorName>(database_.query("SELECT op, max(level), count(*) FROM operators GROUP BY op ORDER BY op"),
                            [](Statement& s, OperatorName& n) {
                              n.op = s.text();
                              n.level = static_cast<int>(s.integer());
                              n.runs = s.integer();
                            });
}

std::vector<OperatorRecord> SqliteStore::operator_results(std::string_view run_id) {
  return results<OperatorRecord>(database_.query(
      "SELECT " + kOperatorColumns + " FROM operators o JOIN runs r USING (run) WHERE o.run = ? ORDER BY o.op",
      number_of(run_id)));
}

std::vector<OperatorRecord> SqliteStore::operator_history(std::string_view op, const RunQuery& query) {
  RunQuery others = query;
  others.op.clear();
  RunSelect select = run_select(others);
  // For an operator in many runs it is fastest to go back through the runs; for a rare one, to sort its few results. A
  // CROSS JOIN keeps the order of the tables.
  constexpr int64_t kFew = 2000;
  Statement few = database_.query("SELECT count(*) FROM (SELECT 1 FROM operators WHERE op = ? LIMIT ?)", op, kFew);
  bool walk = few.step() && few.integer() == kFew;
  Statement s = database_.prepare(fmt::format(
      "SELECT {} FROM {} ON o.run = r.run AND o.op = ? WHERE {}{}", kOperatorColumns,
      walk ? "runs r CROSS JOIN operators o" : "operators o CROSS JOIN runs r", select.where, select.order));
  s.bind(op);
  select.bind_where(s);
  select.bind_order(s);
  return results<OperatorRecord>(std::move(s));
}

// Results of the newest runs that have such results: the limit counts those runs, so it is in the subquery.
template <class Record>
std::vector<Record> SqliteStore::results_of_runs(const std::string& columns, const char* table, const char* condition,
                                                 std::initializer_list<std::string_view> values,
                                                 const RunQuery& query) {
  RunSelect select = run_select(query);
  Statement s = database_.prepare(fmt::format(
      "SELECT {0} FROM (SELECT r.run FROM runs r WHERE {1} AND EXISTS (SELECT 1 FROM {2} x WHERE x.run = r.run AND {3})"
      "{4}) chosen JOIN runs r USING (run) JOIN {2} x USING (run) WHERE {3} ORDER BY r.started_us {5}, r.run {5},"
      " x.result",
      columns, select.where, table, condition, select.order, query.oldest_first ? "" : "DESC"));
  select.bind_where(s);
  for (std::string_view value : values) s.bind(value);
  select.bind_order(s);
  for (std::string_view value : values) s.bind(value);
  return results<Record>(std::move(s));
}

std::vector<KernelRecord> SqliteStore::scenario_history(std::string_view op, std::string_view scenario,
                                                        const RunQuery& query) {
  RunQuery others = query;
  others.op = op;
  return results_of_runs<KernelRecord>(kKernelColumns, "kernel_results", "x.op = ? AND (? = '' OR x.scenario = ?)",
                                       {op, scenario, scenario}, others);
}

std::vector<OperatorRecord> SqliteStore::best(const RunQuery& query) {
  RunQuery others = query;
  others.op.clear();
  RunSelect select = run_select(others);
  std::vector<OperatorRecord> winners;
  for (const std::string& op : query.op.empty() ? operator_names() : std::vector<std::string>{query.op}) {
    // The first conditions repeat those of the index operators_confirmed: new bests are few among many runs.
    Statement s = database_.prepare(
        fmt::format("SELECT {}, max(o.speedup) FROM operators o JOIN runs r USING (run) WHERE o.op = ? AND o.failed = 0"
                    " AND o.passed > 0 AND o.candidate <> 'baseline' AND o.confirmed = 'yes' AND o.low > 1 AND {}"
                    " GROUP BY o.timed_set, r.device, iif(r.device = 'cpu' OR r.gpu_name = '', r.cpu_name, r.gpu_name)"
                    " ORDER BY o.timed DESC, o.speedup DESC",
                    kOperatorColumns, select.where));
    s.bind(op);
    select.bind_where(s);
    while (s.step()) read_result(s, winners.emplace_back());
  }
  return winners;
}

std::optional<double> SqliteStore::best_speedup(std::string_view op, std::string_view scenario, std::string_view device,
                                                std::string_view device_name) {
  // In the order of the index kernel_results_confirmed.
  Statement s = database_.query(
      "SELECT x.speedup FROM kernel_results x JOIN runs r USING (run) WHERE x.op = ? AND x.scenario = ? AND"
      " x.confirmed = 'yes' AND x.verdict = 'PASSED' AND x.candidate <> 'baseline' AND r.device = ? AND"
      " iif(r.device = 'cpu' OR r.gpu_name = '', r.cpu_name, r.gpu_name) = ? ORDER BY x.speedup DESC LIMIT 1",
      op, scenario, device, device_name);
  return s.step() ? s.maybe_real() : std::nullopt;
}

std::vector<ModelName> SqliteStore::ttft_models() {
  return rows<ModelName>(
      database_.query("SELECT model, count(DISTINCT run) FROM ttft_results GROUP BY model ORDER BY model"),
      [](Statement& s, ModelName& n) {
        n.model = s.text();
        n.runs = s.integer();
      });
}

std::vector<TtftRecord> SqliteStore::ttft_history(std::string_view model, const RunQuery& query) {
  RunQuery others = query;
  others.model.clear();
  return results_of_runs<TtftRecord>(kTtftColumns, "ttft_results", "x.model = ?", {model}, others);
}

std::vector<ArtifactRecord> SqliteStore::artifacts(std::string_view run_id) {
  return rows<ArtifactRecord>(
      database_.query("SELECT path, sha256, size_bytes FROM artifacts WHERE run = ? ORDER BY path", number_of(run_id)),
      [](Statement& s, ArtifactRecord& a) {
        a.path = s.text();
        a.sha256 = s.text();
        a.size_bytes = s.integer();
      });
}

std::string SqliteStore::artifact(std::string_view sha256) {
  std::string file = artifact_file(sha256);
  std::ifstream in(file, std::ios::binary);
  std::ostringstream bytes;
  if (in) bytes << in.rdbuf();
  std::string content = bytes.str();
  if (!in.is_open()) throw Error("The artifact {} is not there; it was removed from {}.", sha256, artifact_folder_);
  if (sha256_hex(content) != sha256) throw Error("The artifact {} is damaged; remove {}.", sha256, file);
  return content;
}

}  // namespace fk
