#include "web/overview.h"

#include <algorithm>
#include <map>

#include "web/model_regressions.h"
#include "web/record_json.h"
#include "web/regressions.h"

namespace fk {
namespace {

constexpr int kLatestRuns = 50;
constexpr int kTrendRuns = 30;
constexpr int kModelRuns = 5;  // a path that none of them has is no longer news

RunQuery newest(int runs) {
  RunQuery query;
  query.limit = runs;
  return query;
}

SeriesPoint series_point(const KernelRecord& k, const OperatorRecord& run) {
  SeriesPoint p;
  p.run_id = k.run_id;
  p.commit = run.git_commit;
  p.candidate = k.candidate;
  p.verdict = k.verdict;
  p.passed = k.passed();
  p.skipped = k.skipped();
  if (k.invalid.empty()) {  // a machine too noisy to rank shows nothing, not even a loss
    p.speedup = k.speedup;
    p.low = k.low;
    p.high = k.high;
  }
  p.delta = k.delta.value_or(0);
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
          {"candidate_changed", r.last_good.candidate != r.first_bad.candidate}};
}

struct Regressions {
  Json list = Json::array();
  int64_t series = 0;  // that had something to be compared with
};

void add_regressions(StoreReader& store, const std::string& op, const std::vector<OperatorRecord>& history,
                     Regressions& all) {
  std::map<std::string, const OperatorRecord*> by_run;
  for (const OperatorRecord& r : history)
    if (!r.self_test()) by_run[r.run_id] = &r;
  std::map<std::pair<std::string, std::string>, std::vector<SeriesPoint>> series;  // by scenario and device
  for (const KernelRecord& k : store.scenario_history(op, "", newest(kRegressionWindow)))
    if (auto run = by_run.find(k.run_id); run != by_run.end())
      series[{k.scenario, run->second->device_name}].push_back(series_point(k, *run->second));
  for (const auto& [key, points] : series) {
    if (points.size() > 1) ++all.series;
    if (auto found = find_regression(points)) all.list.push_back(regression_json(op, key.first, key.second, *found));
  }
}

// Wrong before slow, and the deepest fall first.
void sort_regressions(Json& list) {
  auto weight = [](const Json& r) {
    return r["kind"] == "incorrect" ? -1.0 : r["after"].get<double>() / r["before"].get<double>();
  };
  std::stable_sort(list.begin(), list.end(), [&](const Json& a, const Json& b) { return weight(a) < weight(b); });
}

Json best_json(const OperatorName& name, const std::vector<OperatorRecord>& history, const OperatorRecord* best) {
  Json row = {{"op", name.op},   {"level", name.level}, {"runs", name.runs},  {"speedup", nullptr}, {"low", nullptr},
              {"high", nullptr}, {"run_id", ""},        {"time_ms", nullptr}, {"commit", ""},       {"confirmed", ""}};
  if (best != nullptr) {
    Json b = operator_json(*best);
    for (const char* key : {"speedup", "low", "high", "run_id", "time_ms", "commit", "confirmed"}) row[key] = b[key];
  }
  Json trend = Json::array();
  const OperatorRecord* latest = nullptr;
  for (const OperatorRecord& r : history) {
    if (r.self_test()) continue;
    if (latest == nullptr) latest = &r;
    if (r.speedup) trend.insert(trend.begin(), *r.speedup);
  }
  row["trend"] = trend;
  row["latest"] = latest != nullptr && latest->speedup ? Json(*latest->speedup) : Json();
  row["latest_failed"] = latest != nullptr ? latest->failed : 0;
  return row;
}

Json models_json(StoreReader& store) {
  Json list = Json::array();
  for (const ModelName& name : store.ttft_models()) {
    // By path: of its newest run the result with the largest search budget.
    std::map<std::string, TtftRecord> shown;
    for (TtftRecord& t : store.ttft_history(name.model, newest(kModelRuns))) {
      auto known = shown.find(t.path);
      if (known == shown.end())
        shown.emplace(t.path, std::move(t));
      else if (known->second.run_id == t.run_id && known->second.search_iters < t.search_iters)
        known->second = std::move(t);
    }
    for (const auto& [path, t] : shown) {
      Json row = ttft_json(t);
      row.erase("samples");
      list.push_back(std::move(row));
    }
  }
  return list;
}

}  // namespace

Json overview_json(StoreReader& store) {
  Regressions regressions;
  Json best = Json::array();
  RunQuery everything;
  everything.limit = -1;
  std::vector<OperatorRecord> champions = store.best(everything);
  for (const OperatorName& name : store.operators()) {
    std::vector<OperatorRecord> history = store.operator_history(name.op, newest(kTrendRuns));
    add_regressions(store, name.op, history, regressions);
    auto champion = std::find_if(champions.begin(), champions.end(), [&](const auto& c) { return c.op == name.op; });
    best.push_back(best_json(name, history, champion == champions.end() ? nullptr : &*champion));
  }
  sort_regressions(regressions.list);
  Json runs = Json::array();
  for (const RunRecord& run : store.runs(newest(kLatestRuns))) runs.push_back(run_json(run));
  return {{"database", store.path()},
          {"runs_total", store.count_runs(everything)},
          {"window", kRegressionWindow},
          {"series", regressions.series},
          {"regressions", regressions.list},
          {"model_regressions", model_regressions_json(store, kRegressionWindow)},
          {"best", best},
          {"models", models_json(store)},
          {"runs", runs}};
}

}  // namespace fk
