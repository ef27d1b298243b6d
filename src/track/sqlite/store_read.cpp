// Reading: runs, their results, and one operator or model over many runs.
#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "track/sha256.h"
#include "track/sqlite/store_sqlite.h"

namespace fk {
namespace {

const std::string kRunColumns =
    "r.run, r.run_id, r.name, r.experiment, r.tier, r.mode, r.status, r.error, r.started_us, r.ended_us, r.git_commit,"
    " r.git_branch, r.git_dirty, r.host, r.device, r.cpu_name, r.gpu_name, r.gpu_driver, r.gpu_vram_mb, r.cuda_version";

int64_t read_run(Statement& s, RunRecord& r) {
  int64_t number = s.integer();
  r.id = s.text();
  r.name = s.text();
  r.experiment = s.text();
  r.tier = s.text();
  r.mode = s.text();
  r.status = s.text();
  r.error = s.text();
  r.started_us = s.integer();
  r.ended_us = s.maybe_integer();
  Environment& e = r.environment;
  e.git_commit = s.text();
  e.git_branch = s.text();
  e.git_dirty = s.integer() != 0;
  e.host = s.text();
  e.device = s.text();
  e.cpu_name = s.text();
  e.gpu_name = s.text();
  e.gpu_driver = s.text();
  e.gpu_vram_mb = s.integer();
  e.cuda_version = s.text();
  return number;
}

const std::string kOperatorColumns =
    "r.run_id, r.name, r.status, r.started_us, r.git_commit, r.device, iif(r.device = 'cpu' OR r.gpu_name = '',"
    " r.cpu_name, r.gpu_name), o.op, o.level, o.candidate, o.source_sha256, o.passed, o.failed, o.skipped, o.speedup,"
    " o.low, o.high, o.worst, o.worst_scenario, o.err_ratio";

OperatorRecord read_operator(Statement& s) {
  OperatorRecord o;
  o.run_id = s.text();
  o.run_name = s.text();
  o.run_status = s.text();
  o.started_us = s.integer();
  o.git_commit = s.text();
  o.device = s.text();
  o.device_name = s.text();
  o.op = s.text();
  o.level = static_cast<int>(s.integer());
  o.candidate = s.text();
  o.source_sha256 = s.text();
  o.passed = s.integer();
  o.failed = s.integer();
  o.skipped = s.integer();
  o.speedup = s.maybe_real();
  o.low = s.maybe_real();
  o.high = s.maybe_real();
  o.worst = s.maybe_real();
  o.worst_scenario = s.text();
  o.err_ratio = s.maybe_real();
  return o;
}

const std::string kKernelColumns =
    "r.run_id, r.started_us, k.op, k.level, k.scenario, k.models, k.tp, k.tokens, k.dtype, k.candidate, k.verdict,"
    " k.sentence, k.err_ratio, k.baseline_ns, k.candidate_ns, k.speedup, k.low, k.high, k.speed_verdict, k.invalid,"
    " k.delta, k.control_error, k.floor_ns, k.of_floor, k.bytes, k.matrix_flops, k.vector_flops, k.seconds";

KernelRecord read_kernel(Statement& s) {
  KernelRecord k;
  k.run_id = s.text();
  k.started_us = s.integer();
  k.op = s.text();
  k.level = static_cast<int>(s.integer());
  k.scenario = s.text();
  k.models = parse_json(s.text(), "models of a result").get<std::vector<std::string>>();
  k.tp = s.integer();
  k.tokens = s.integer();
  k.dtype = s.text();
  k.candidate = s.text();
  k.verdict = s.text();
  k.sentence = s.text();
  k.err_ratio = s.maybe_real();
  k.baseline_ns = s.maybe_real();
  k.candidate_ns = s.maybe_real();
  k.speedup = s.maybe_real();
  k.low = s.maybe_real();
  k.high = s.maybe_real();
  k.speed_verdict = s.text();
  k.invalid = s.text();
  k.delta = s.maybe_real();
  k.control_error = s.maybe_real();
  k.floor_ns = s.maybe_real();
  k.of_floor = s.maybe_real();
  k.bytes = s.real();
  k.matrix_flops = s.real();
  k.vector_flops = s.real();
  k.seconds = s.real();
  return k;
}

const std::string kTtftColumns =
    "r.run_id, r.name, r.started_us, r.git_commit, t.path, t.model, t.model_key, t.config, t.device, t.dtype, "
    "t.threads,"
    " t.prompt_tokens, t.iters, t.decode_tokens, t.search_iters, t.ttft_ms, t.ttft_ms_mean, t.ttft_sequential_ms,"
    " t.tpot_ms, t.throughput_tps, t.compile_ms, t.prefill_floor_share, t.decode_floor_share, t.load_ms,"
    " t.weights_bytes, t.peak_memory_bytes, t.note, t.error, t.samples";

TtftRecord read_ttft(Statement& s) {
  TtftRecord t;
  t.run_id = s.text();
  t.run_name = s.text();
  t.started_us = s.integer();
  t.git_commit = s.text();
  t.path = s.text();
  t.model = s.text();
  t.model_key = s.text();
  t.config = s.text();
  t.device = s.text();
  t.dtype = s.text();
  t.threads = s.integer();
  t.prompt_tokens = s.integer();
  t.iters = s.integer();
  t.decode_tokens = s.integer();
  t.search_iters = s.maybe_integer();
  t.ttft_ms = s.maybe_real();
  t.ttft_ms_mean = s.maybe_real();
  t.ttft_sequential_ms = s.maybe_real();
  t.tpot_ms = s.maybe_real();
  t.throughput_tps = s.maybe_real();
  t.compile_ms = s.maybe_real();
  t.prefill_floor_share = s.maybe_real();
  t.decode_floor_share = s.maybe_real();
  t.load_ms = s.maybe_real();
  t.weights_bytes = s.maybe_integer();
  t.peak_memory_bytes = s.maybe_integer();
  t.note = s.text();
  t.error = s.text();
  t.samples = parse_json(s.text(), "samples of a result");
  return t;
}

template <class Record>
std::vector<Record> all(Statement s, Record (*read)(Statement&)) {
  std::vector<Record> records;
  while (s.step()) records.push_back(read(s));
  return records;
}

}  // namespace

void SqliteStore::read_pairs(int64_t run, RunRecord& record) {
  for (Statement s = database_.query("SELECT key, value FROM params WHERE run = ?", run); s.step();) {
    std::string key = s.text();
    record.params[key] = s.text();
  }
  for (Statement s = database_.query("SELECT key, value FROM tags WHERE run = ?", run); s.step();) {
    std::string key = s.text();
    record.tags[key] = s.text();
  }
  // By step, so that the newest comes last and stays.
  for (Statement s = database_.query("SELECT key, value FROM metrics WHERE run = ? ORDER BY key, step", run);
       s.step();) {
    std::string key = s.text();
    record.metrics[key] = s.real();
  }
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
  // substr, not LIKE: an id may hold what LIKE takes for a wildcard. The head is a range, which the index knows.
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
  if (found.empty()) throw Error("No run is called '{}' in {}; `fastkernels history` lists them.", abbreviation, path_);
  if (found.size() > 1)
    throw Error("'{}' fits several runs ({} and {}{}); give more of the id.", abbreviation, found[0], found[1],
                found.size() > 2 ? " and more" : "");
  return found.front();
}

std::vector<MetricPoint> SqliteStore::metric_points(std::string_view run_id, std::string_view key) {
  std::vector<MetricPoint> points;
  for (Statement s =
           database_.query("SELECT key, value, step, time_us FROM metrics WHERE run = ?1 AND (?2 = '' OR key = ?2)"
                           " ORDER BY key, step",
                           number_of(run_id), key);
       s.step();) {
    MetricPoint& p = points.emplace_back();
    p.key = s.text();
    p.value = s.real();
    p.step = s.integer();
    p.time_us = s.integer();
  }
  return points;
}

std::vector<KernelRecord> SqliteStore::kernel_results(std::string_view run_id, std::string_view op) {
  return all(
      database_.query("SELECT " + kKernelColumns +
                          " FROM kernel_results k JOIN runs r USING (run) WHERE k.run = ?1 AND (?2 = '' OR k.op = ?2)"
                          " ORDER BY k.op, k.result",
                      number_of(run_id), op),
      read_kernel);
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
  return all(database_.query("SELECT " + kTtftColumns +
                                 " FROM ttft_results t JOIN runs r USING (run) WHERE t.run = ? ORDER BY t.result",
                             number_of(run_id)),
             read_ttft);
}

// From one name to the next through the index, instead of reading every row of every run.
std::vector<std::string> SqliteStore::operator_names() {
  std::vector<std::string> names;
  for (Statement s =
           database_.query("WITH RECURSIVE n(op) AS (SELECT min(op) FROM operators UNION ALL"
                           " SELECT (SELECT min(op) FROM operators WHERE op > n.op) FROM n WHERE n.op IS NOT NULL)"
                           " SELECT op FROM n WHERE op IS NOT NULL");
       s.step();)
    names.push_back(s.text());
  return names;
}

std::vector<OperatorName> SqliteStore::operators() {
  std::vector<OperatorName> names;
  for (Statement s = database_.query("SELECT op, max(level), count(*) FROM operators GROUP BY op ORDER BY op");
       s.step();) {
    OperatorName& n = names.emplace_back();
    n.op = s.text();
    n.level = static_cast<int>(s.integer());
    n.runs = s.integer();
  }
  return names;
}

std::vector<OperatorRecord> SqliteStore::operator_results(std::string_view run_id) {
  return all(database_.query("SELECT " + kOperatorColumns +
                                 " FROM operators o JOIN runs r USING (run) WHERE o.run = ? ORDER BY o.op",
                             number_of(run_id)),
             read_operator);
}

std::vector<OperatorRecord> SqliteStore::operator_history(std::string_view op, const RunQuery& query) {
  RunQuery others = query;
  others.op.clear();
  RunSelect select = run_select(others);
  // Of an operator that many runs have, the newest are found quickest by walking back through the runs; of a rare one,
  // by sorting the few there are. A CROSS JOIN keeps the order it is written in.
  constexpr int64_t kFew = 2000;
  Statement few = database_.query("SELECT count(*) FROM (SELECT 1 FROM operators WHERE op = ? LIMIT ?)", op, kFew);
  bool walk = few.step() && few.integer() == kFew;
  Statement s = database_.prepare(fmt::format(
      "SELECT {} FROM {} ON o.run = r.run AND o.op = ? WHERE {}{}", kOperatorColumns,
      walk ? "runs r CROSS JOIN operators o" : "operators o CROSS JOIN runs r", select.where, select.order));
  s.bind(op);
  select.bind_where(s);
  select.bind_order(s);
  return all(std::move(s), read_operator);
}

std::vector<KernelRecord> SqliteStore::scenario_history(std::string_view op, std::string_view scenario,
                                                        const RunQuery& query) {
  RunQuery others = query;
  others.op = op;
  RunSelect select = run_select(others);
  const char* direction = query.oldest_first ? "" : "DESC";
  // The limit counts runs that have the scenario, so it stands inside.
  Statement s = database_.prepare(
      fmt::format("SELECT {0} FROM (SELECT r.run FROM runs r WHERE {1} AND EXISTS (SELECT 1 FROM kernel_results x "
                  "WHERE x.run = r.run"
                  " AND x.op = ? AND (? = '' OR x.scenario = ?)){2}) chosen JOIN runs r USING (run) JOIN "
                  "kernel_results k USING (run)"
                  " WHERE k.op = ? AND (? = '' OR k.scenario = ?) ORDER BY r.started_us {3}, r.run {3}, k.result",
                  kKernelColumns, select.where, select.order, direction));
  select.bind_where(s);
  s.bind(op).bind(scenario).bind(scenario);
  select.bind_order(s);
  s.bind(op).bind(scenario).bind(scenario);
  return all(std::move(s), read_kernel);
}

std::vector<OperatorRecord> SqliteStore::best(const RunQuery& query) {
  RunQuery others = query;
  others.op.clear();
  RunSelect select = run_select(others);
  std::vector<OperatorRecord> winners;
  for (const std::string& op : query.op.empty() ? operator_names() : std::vector<std::string>{query.op}) {
    // The condition repeats the one of the index operators_by_speed, which is in this order.
    Statement s =
        database_.prepare("SELECT " + kOperatorColumns +
                          " FROM operators o JOIN runs r USING (run) WHERE o.op = ? AND o.failed = 0 AND o.passed > 0"
                          " AND o.candidate <> 'baseline' AND o.speedup IS NOT NULL AND " +
                          select.where + " ORDER BY o.speedup DESC LIMIT 1");
    s.bind(op);
    select.bind_where(s);
    if (s.step()) winners.push_back(read_operator(s));
  }
  return winners;
}

std::vector<ModelName> SqliteStore::ttft_models() {
  std::vector<ModelName> names;
  for (Statement s =
           database_.query("SELECT model, count(DISTINCT run) FROM ttft_results GROUP BY model ORDER BY model");
       s.step();) {
    ModelName& n = names.emplace_back();
    n.model = s.text();
    n.runs = s.integer();
  }
  return names;
}

std::vector<TtftRecord> SqliteStore::ttft_history(std::string_view model, const RunQuery& query) {
  RunQuery others = query;
  others.model.clear();
  RunSelect select = run_select(others);
  const char* direction = query.oldest_first ? "" : "DESC";
  Statement s = database_.prepare(fmt::format(
      "SELECT {0} FROM (SELECT r.run FROM runs r WHERE {1} AND EXISTS (SELECT 1 FROM ttft_results x WHERE x.run = r.run"
      " AND x.model = ?){2}) chosen JOIN runs r USING (run) JOIN ttft_results t USING (run)"
      " WHERE t.model = ? ORDER BY r.started_us {3}, r.run {3}, t.result",
      kTtftColumns, select.where, select.order, direction));
  select.bind_where(s);
  s.bind(model);
  select.bind_order(s);
  s.bind(model);
  return all(std::move(s), read_ttft);
}

std::vector<ArtifactRecord> SqliteStore::artifacts(std::string_view run_id) {
  std::vector<ArtifactRecord> list;
  for (Statement s = database_.query("SELECT path, sha256, size_bytes FROM artifacts WHERE run = ? ORDER BY path",
                                     number_of(run_id));
       s.step();) {
    ArtifactRecord& a = list.emplace_back();
    a.path = s.text();
    a.sha256 = s.text();
    a.size_bytes = s.integer();
  }
  return list;
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
