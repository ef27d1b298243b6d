#include "track/events.h"

#include <algorithm>

#include "core/error.h"
#include "track/base64.h"
#include "track/records_json.h"

namespace fk {
namespace {

bool is_utf8(std::string_view text) {
  try {
    return !Json(text).dump().empty();
  } catch (const Json::exception&) {
    return false;
  }
}

}  // namespace

Json run_event(const RunRecord& run) { return {{"event", "run"}, {"run", to_json(run)}}; }
Json ttft_event(const TtftRecord& result) { return {{"event", "ttft"}, {"result", to_json(result)}}; }
Json operator_event(const OperatorRecord& summary) { return {{"event", "operator"}, {"summary", to_json(summary)}}; }

Json metrics_event(const std::vector<MetricPoint>& points) {
  Json list = Json::array();
  for (const MetricPoint& p : points) list.push_back(to_json(p));
  return {{"event", "metrics"}, {"points", list}};
}

Json pairs_event(std::string_view what, const std::map<std::string, std::string>& values) {
  return {{"event", what}, {"values", values}};
}

Json artifact_event(std::string_view path, std::string_view bytes) {
  if (is_utf8(bytes)) return {{"event", "artifact"}, {"path", path}, {"text", bytes}};
  return {{"event", "artifact"}, {"path", path}, {"base64", to_base64(bytes)}};
}

std::vector<Json> candidate_events(const BuiltSource& c) {
  std::string ending = c.path.ends_with(".cu") ? "cu" : "cpp";
  std::vector<Json> events = {artifact_event(fmt::format("kernels/{}.{}", c.op, ending), c.source)};
  std::string build = c.command.empty() ? "" : fmt::format("$ {}\n", fmt::join(c.command, " "));
  build += c.log;
  if (!build.empty()) events.push_back(artifact_event(fmt::format("logs/{}.txt", c.op), build));
  return events;
}

Json end_event(std::string_view status, std::string_view error, int64_t ended_us) {
  return {{"event", "end"}, {"status", status}, {"error", error}, {"ended_us", ended_us}};
}

void apply_event(Store& store, const std::string& run_id, const Json& event) {
  auto what = event.value("event", "");
  if (what.empty()) {
    KernelRecord result = kernel_record(event);
    result.run_id = run_id;
    store.add_kernel_result(result, kernel_detail(event));
  } else if (what == "ttft") {
    TtftRecord result = ttft_record(event.at("result"));
    result.run_id = run_id;
    store.add_ttft_result(result);
  } else if (what == "operator") {
    OperatorRecord summary = operator_record(event.at("summary"));
    summary.run_id = run_id;
    store.set_operator(summary);
  } else if (what == "metrics") {
    std::vector<MetricPoint> points;
    for (const Json& p : event.at("points")) points.push_back(metric_point(p));
    store.log_metrics(run_id, points);
  } else if (what == "params") {
    store.set_params(run_id, event.at("values").get<std::map<std::string, std::string>>());
  } else if (what == "tags") {
    store.set_tags(run_id, event.at("values").get<std::map<std::string, std::string>>());
  } else if (what == "artifact") {
    store.add_artifact(
        run_id, event.at("path").get<std::string>(),
        event.contains("text") ? event["text"].get<std::string>() : from_base64(event.at("base64").get<std::string>()));
  } else if (what == "end") {
    store.end_run(run_id, event.at("status").get<std::string>(), event.value("error", ""),
                  event.at("ended_us").get<int64_t>());
  } else {
    throw Error("'{}' is no event that this fastkernels knows", what);
  }
}

std::vector<Json> kernel_summary_events(const Json& rows, const Json& aggregate,
                                        const std::map<std::string, std::string>& sources, int64_t time_us) {
  std::vector<OperatorRecord> operators;
  for (const Json& row : rows) {
    KernelRecord k = kernel_record(row);
    auto found =
        std::find_if(operators.begin(), operators.end(), [&](const OperatorRecord& o) { return o.op == k.op; });
    if (found == operators.end()) {
      found = operators.insert(operators.end(), OperatorRecord());
      found->op = k.op;
      found->level = k.level;
      found->candidate = k.candidate;
      if (auto source = sources.find(k.op); source != sources.end()) found->source_sha256 = source->second;
    }
    (k.passed() ? found->passed : k.skipped() ? found->skipped : found->failed) += 1;
    add_confirmed(*found, k);
    if (k.err_ratio) found->err_ratio = std::max(found->err_ratio.value_or(0), *k.err_ratio);
    if (k.ranked() && (!found->worst || *k.speedup < *found->worst)) {
      found->worst = k.speedup;
      found->worst_scenario = k.scenario;
    }
  }
  std::vector<Json> events;
  std::vector<MetricPoint> points;
  auto add = [&](const std::string& key, double value) { points.push_back({key, value, 0, time_us}); };
  int64_t passed = 0, failed = 0;
  for (OperatorRecord& o : operators) {
    if (o.worst) {
      const Json& a = aggregate.at("operators").at(o.op);
      o.speedup = a.at("geometric_mean").get<double>();
      o.low = a.at("low").get<double>();
      o.high = a.at("high").get<double>();
      add(o.op + "_avg_speedup", *o.speedup);
    }
    add(o.op + "_passed", static_cast<double>(o.passed));
    add(o.op + "_failed", static_cast<double>(o.failed));
    passed += o.passed;
    failed += o.failed;
    events.push_back(operator_event(o));
  }
  if (double mean = aggregate.at("overall").at("geometric_mean").get<double>(); mean > 0) add("avg_speedup", mean);
  add("total_passed", static_cast<double>(passed));
  add("total_failed", static_cast<double>(failed));
  events.push_back(metrics_event(points));
  return events;
}

void for_each_event(StoreReader& store, std::string_view run_id, const std::function<void(const Json&)>& take) {
  std::optional<RunRecord> run = store.run(run_id);
  if (!run) throw Error("There is no run {} in {}.", run_id, store.path());
  RunRecord begin = *run;
  begin.metrics.clear();  // with all their steps below
  begin.status = "running";
  begin.error.clear();
  begin.ended_us.reset();
  take(run_event(begin));
  for (const ArtifactRecord& a : store.artifacts(run_id)) take(artifact_event(a.path, store.artifact(a.sha256)));
  for (const KernelRecord& k : store.kernel_results(run_id, ""))
    if (auto detail = store.kernel_detail(run_id, k.op, k.scenario)) take(kernel_row(*detail));
  for (const OperatorRecord& o : store.operator_results(run_id)) take(operator_event(o));
  for (const TtftRecord& t : store.ttft_results(run_id)) take(ttft_event(t));
  if (std::vector<MetricPoint> points = store.metric_points(run_id, ""); !points.empty()) take(metrics_event(points));
  if (run->status != "running") take(end_event(run->status, run->error, run->ended_us.value_or(run->started_us)));
}

}  // namespace fk
