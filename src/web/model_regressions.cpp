#include "web/model_regressions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "track/record_fields.h"
#include "track/run_diff.h"
#include "web/regressions.h"

namespace fk {
namespace {

// Times of separate runs vary with the state of the machine: smaller changes are not reported.
constexpr double kMood = 0.05;

struct Metric {
  const char* key;
  std::optional<double> TtftRecord::*value;
};
constexpr Metric kMetrics[] = {{"ttft_ms", &TtftRecord::ttft_ms}, {"tpot_ms", &TtftRecord::tpot_ms}};

// Only equal work on one machine is comparable.
std::string series_of(const TtftRecord& t, RunLikeness& likeness) {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", t.path, t.config, t.device, likeness.device_name(t.run_id),
                     t.dtype, t.threads, t.prompt_tokens, t.decode_tokens, t.search_iters.value_or(-1),
                     t.weights_bytes.value_or(0), likeness.param(t.run_id, "load_format"),
                     likeness.param(t.run_id, "batch_size"));
}

// Faster is larger, as find_regression() has it.
SeriesPoint series_point(const TtftRecord& t, const Metric& metric, RunLikeness& likeness) {
  SeriesPoint p;
  p.run_id = t.run_id;
  p.candidate = likeness.candidates(t.run_id);
  p.busy = likeness.busy(t.run_id);
  p.commit = t.git_commit;
  p.verdict = t.error;
  p.passed = t.error.empty();
  p.delta = kMood;
  std::map<std::string, Spread> spreads = ttft_spreads(t);
  auto spread = spreads.find(metric.key);
  const std::optional<double>& ms = t.*metric.value;
  if (!ms || !(*ms > 0) || spread == spreads.end() || !(*spread->second.low > 0)) return p;
  p.speedup = 1 / *ms;
  p.low = 1 / *spread->second.high;
  p.high = 1 / *spread->second.low;
  return p;
}

Json time_json(const std::optional<double>& speed) { return speed ? Json(1 / *speed) : Json(); }

Json regression_json(const TtftRecord& newest, const std::string& machine, const Metric& metric, const Regression& r) {
  return {{"model", newest.model},
          {"path", newest.path},
          {"search_iters", known(newest.search_iters)},
          {"metric", metric.key},
          {"kind", r.incorrect ? "fails" : "slower"},
          {"error", r.latest.verdict},
          {"device_name", machine},
          {"before", time_json(r.before.speedup)},
          {"before_low", time_json(r.before.high)},
          {"before_high", time_json(r.before.low)},
          {"after", time_json(r.latest.speedup)},
          {"after_low", time_json(r.latest.high)},
          {"after_high", time_json(r.latest.low)},
          {"latest_run", r.latest.run_id},
          {"good_run", r.last_good.run_id},
          {"good_commit", r.last_good.commit},
          {"bad_run", r.first_bad.run_id},
          {"bad_commit", r.first_bad.commit},
          {"unlike", r.unlike}};
}

}  // namespace

ModelRegressions model_regressions(StoreReader& store, int window, RunLikeness& likeness) {
  std::vector<Json> alarms, changes;
  RunQuery query;
  query.limit = window;
  for (const ModelName& name : store.ttft_models()) {
    std::map<std::string, std::vector<TtftRecord>> series;
    for (TtftRecord& t : store.ttft_history(name.model, query)) series[series_of(t, likeness)].push_back(std::move(t));
    for (const auto& [key, results] : series)
      for (const Metric& metric : kMetrics) {
        std::vector<SeriesPoint> points;
        for (const TtftRecord& t : results) points.push_back(series_point(t, metric, likeness));
        auto regression = find_regression(points);
        if (!regression) continue;
        const TtftRecord& newest = results.front();
        (regression->unlike.empty() ? alarms : changes)
            .push_back(regression_json(newest, likeness.device_name(newest.run_id), metric, *regression));
        if (regression->incorrect) break;  // report a failure once, not once per metric
      }
  }
  auto weight = [](const Json& r) {
    return r["kind"] == "fails" ? -1.0 : r["before"].get<double>() / r["after"].get<double>();
  };
  auto sort = [&](std::vector<Json>& list) {
    std::stable_sort(list.begin(), list.end(), [&](const Json& a, const Json& b) { return weight(a) < weight(b); });
  };
  sort(alarms);
  sort(changes);
  return {std::move(alarms), std::move(changes)};
}

}  // namespace fk
