#include "web/overview.h"

#include <algorithm>
#include <map>

#include "track/comparable.h"
#include "web/model_regressions.h"
#include "web/record_json.h"
#include "web/regressions.h"

namespace fk {
namespace {

constexpr int kLatestRuns = 50;
constexpr int kTrendRuns = 30;
constexpr int kModelRuns = 5;  // a path that is in none of them is left out

SeriesPoint series_point(const KernelRecord& k, const OperatorRecord& run, RunLikeness& likeness) {
  SeriesPoint p;
  p.run_id = k.run_id;
  p.commit = run.git_commit;
  p.candidate = k.candidate;
  p.verdict = k.verdict;
  p.passed = k.passed();
  p.skipped = k.skipped();
  if (k.invalid.empty()) {  // with a noisy machine there is no valid speed-up
    p.speedup = k.speedup;
    p.low = k.low;
    p.high = k.high;
  }
  p.delta = k.delta.value_or(0);
  p.busy = likeness.busy(k.run_id);
  return p;
}

Json regression_json(const std::string& op, const std::string& scenario, const std::string& device,
                     const Regression& r) {
  auto number = [](const std::optional<double>& x) { return x ? Json(*x) : Json(); };
  return {{"op", op},
          {"scenario", scenario},
          {"device_name", device},
          {"kind", r.incorrect ? "incorrect" : "slower"},
          {"verdict", r.latest.verdict},
          {"before", number(r.before.speedup)},
          {"before_low", number(r.before.low)},
          {"before_high", number(r.before.high)},
          {"after", number(r.latest.speedup)},
          {"after_low", number(r.latest.low)},
          {"after_high", number(r.latest.high)},
          {"latest_run", r.latest.run_id},
          {"good_run", r.last_good.run_id},
          {"good_commit", r.last_good.commit},
          {"bad_run", r.first_bad.run_id},
          {"bad_commit", r.first_bad.commit},
          {"unlike", r.unlike},
          {"candidate_changed", r.last_good.candidate != r.first_bad.candidate}};
}

struct Regressions {
  Json list = Json::array();     // alarms
  Json changes = Json::array();  // between runs that are unlike
  int64_t series = 0;            // that could be compared
};

void add_regressions(StoreReader& store, const std::string& op, const std::vector<OperatorRecord>& history,
                     RunLikeness& likeness, Regressions& all) {
  std::map<std::string, const OperatorRecord*> by_run;
  for (const OperatorRecord& r : history) by_run[r.run_id] = &r;
  std::map<std::pair<std::string, std::string>, std::vector<SeriesPoint>> series;  // by scenario and device
  for (const KernelRecord& k : store.scenario_history(op, "", newest_runs(kRegressionWindow)))
    if (auto run = by_run.find(k.run_id); run != by_run.end())
      series[{k.scenario, run->second->device_name}].push_back(series_point(k, *run->second, likeness));
  for (const auto& [key, points] : series) {
    if (points.size() > 1) ++all.series;
    if (auto found = find_regression(points))
      (found->unlike.empty() ? all.list : all.changes).push_back(regression_json(op, key.first, key.second, *found));
  }
}

// Failures before slowdowns, the largest slowdown first.
void sort_regressions(Json& list) {
  auto weight = [](const Json& r) {
    return r["kind"] == "incorrect" ? -1.0 : r["after"].get<double>() / r["before"].get<double>();
  };
  std::stable_sort(list.begin(), list.end(), [&](const Json& a, const Json& b) { return weight(a) < weight(b); });
}

// The newest comparable runs of an operator: with the scenarios and the device of its newest run. The champion is the
// best of these.
Json best_json(const OperatorName& name, const ComparableRuns& group, const std::vector<OperatorRecord>& champions) {
  Json row = {{"op", name.op},  {"level", name.level}, {"runs", name.runs},    {"speedup", nullptr},
              {"low", nullptr}, {"high", nullptr},     {"run_id", ""},         {"time_ms", nullptr},
              {"commit", ""},   {"confirmed", ""},     {"timed", group.timed}, {"device_name", group.device_name}};
  for (const OperatorRecord& c : champions) {
    if (c.op != name.op || c.timed_set != group.timed_set || c.device != group.device ||
        c.device_name != group.device_name)
      continue;
    Json b = operator_json(c);
    for (const char* key : {"speedup", "low", "high", "run_id", "time_ms", "commit", "confirmed"}) row[key] = b[key];
    break;
  }
  row["strip"] = Json::array();
  for (const OperatorRecord& r : group.runs) {
    Json o = operator_json(r);
    Json cell = Json::object();
    for (const char* key :
         {"run_id", "run_name", "time_ms", "commit", "speedup", "low", "high", "passed", "failed", "verdict"})
      cell[key] = o[key];
    row["strip"].push_back(std::move(cell));
  }
  return row;
}

Json models_json(StoreReader& store) {
  Json list = Json::array();
  for (const ModelName& name : store.ttft_models()) {
    // By path: the result with the largest search budget in its newest run.
    std::map<std::string, TtftRecord> shown;
    for (TtftRecord& t : store.ttft_history(name.model, newest_runs(kModelRuns))) {
      if (!t.ttft_ms && t.error.empty()) continue;  // a suite skipped it
      auto known = shown.find(t.path);
      if (known == shown.end())
        shown.emplace(t.path, std::move(t));
      else if (known->second.run_id == t.run_id && known->second.search_iters < t.search_iters)
        known->second = std::move(t);
    }
    for (const auto& [path, t] : shown) {
      Json row = ttft_json(t);
      row.erase("samples");
      row.erase("details");
      list.push_back(std::move(row));
    }
  }
  return list;
}

}  // namespace

Json overview_json(StoreReader& store) {
  Regressions regressions;
  RunLikeness likeness(store);
  Json best = Json::array();
  RunQuery everything;
  everything.limit = -1;
  std::vector<OperatorRecord> champions = store.best(everything);
  for (const OperatorName& name : store.operators()) {
    std::vector<OperatorRecord> history = store.operator_history(name.op, newest_runs(kTrendRuns));
    std::erase_if(history, [](const OperatorRecord& r) { return r.self_test(); });
    add_regressions(store, name.op, history, likeness, regressions);
    std::vector<ComparableRuns> groups = comparable_runs(history);
    best.push_back(best_json(name, groups.empty() ? ComparableRuns() : groups.front(), champions));
  }
  sort_regressions(regressions.list);
  sort_regressions(regressions.changes);
  ModelRegressions models = model_regressions(store, kRegressionWindow, likeness);
  Json runs = Json::array();
  for (const RunRecord& run : store.runs(newest_runs(kLatestRuns))) runs.push_back(run_json(run));
  return {{"database", store.path()},
          {"runs_total", store.count_runs(everything)},
          {"window", kRegressionWindow},
          {"series", regressions.series},
          {"regressions", regressions.list},
          {"changes", regressions.changes},
          {"model_regressions", models.alarms},
          {"model_changes", models.changes},
          {"best", best},
          {"models", models_json(store)},
          {"runs", runs}};
}

}  // namespace fk
