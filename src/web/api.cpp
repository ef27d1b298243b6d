#include "web/api.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "track/comparable.h"
#include "track/records_json.h"
#include "track/run_diff.h"
#include "web/overview.h"
#include "web/record_json.h"

namespace fk {
namespace {

constexpr int kMostRuns = 20'000;          // in one list; `fastkernels history` reads the rest
constexpr int kMostHistory = 1'000;        // runs of one operator or model
constexpr size_t kMostText = 1024 * 1024;  // of a file shown on a page; a download is complete

// "a/b/c/d" into at most `most` parts; the last keeps its slashes.
std::vector<std::string> split(std::string_view path, size_t most) {
  std::vector<std::string> parts;
  while (parts.size() + 1 < most) {
    size_t slash = path.find('/');
    if (slash == std::string_view::npos) break;
    parts.emplace_back(path.substr(0, slash));
    path.remove_prefix(slash + 1);
  }
  parts.emplace_back(path);
  return parts;
}

// Each source once, with the newest run that measured it and its best speed-up.
Json sources_json(const std::vector<OperatorRecord>& history) {
  Json list = Json::array();
  for (const OperatorRecord& r : history) {
    if (r.source_sha256.empty()) continue;
    auto known = std::find_if(list.begin(), list.end(), [&](const Json& s) { return s["sha256"] == r.source_sha256; });
    if (known == list.end()) {
      Json o = operator_json(r);
      list.push_back({{"sha256", r.source_sha256},
                      {"candidate", r.candidate},
                      {"run_id", r.run_id},
                      {"time_ms", o["time_ms"]},
                      {"commit", r.git_commit},
                      {"speedup", o["speedup"]},
                      {"runs", 1}});
      continue;
    }
    (*known)["runs"] = (*known)["runs"].get<int>() + 1;
    if (r.speedup && ((*known)["speedup"].is_null() || (*known)["speedup"].get<double>() < *r.speedup))
      (*known)["speedup"] = *r.speedup;
  }
  return list;
}

// The noise of each metric, for pages that compare runs.
Json spreads_json(const std::map<std::string, Spread>& spreads) {
  Json json = Json::object();
  for (const auto& [key, spread] : spreads)
    if (spread.low && spread.high) json[key] = {*spread.low, *spread.high};
  return json;
}

bool is_sha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

Json runs_json(StoreReader& store, int most) {
  Json runs = Json::array();
  for (const RunRecord& run : store.runs(newest_runs(most))) runs.push_back(run_json(run));
  return {{"total", store.count_runs(RunQuery{})}, {"runs", std::move(runs)}};
}

Json operator_page_json(StoreReader& store, const std::string& op) {
  std::vector<OperatorRecord> history = store.operator_history(op, newest_runs(kMostHistory));
  // Self-tests have no candidate; they are shown only if there is nothing else.
  if (!std::all_of(history.begin(), history.end(), [](const OperatorRecord& r) { return r.self_test(); }))
    std::erase_if(history, [](const OperatorRecord& r) { return r.self_test(); });
  // Newest first within each group of runs that can be compared, and the group of the newest run first.
  Json runs = Json::array(), groups = Json::array();
  for (const ComparableRuns& group : comparable_runs(history)) {
    for (const OperatorRecord& r : group.runs) {
      runs.push_back(operator_json(r));
      runs.back()["group"] = groups.size();
    }
    groups.push_back({{"device", group.device},
                      {"device_name", group.device_name},
                      {"timed", group.timed},
                      {"timed_set", group.timed_set},
                      {"runs", group.runs.size()}});
  }
  return {{"op", op},
          {"level", history.empty() ? 0 : history.front().level},
          {"runs", std::move(runs)},
          {"groups", std::move(groups)},
          {"sources", sources_json(history)}};
}

Json model_page_json(StoreReader& store, const std::string& model) {
  Json rows = Json::array();
  for (const TtftRecord& t : store.ttft_history(model, newest_runs(kMostHistory))) rows.push_back(ttft_json(t));
  return {{"model", model}, {"rows", std::move(rows)}};
}

std::optional<Json> run_page_json(StoreReader& store, const std::string& run_id) {
  std::optional<RunRecord> run = store.run(run_id);
  if (!run) return std::nullopt;
  Json json = {{"run", run_json(*run)}};
  json["run"]["environment"] = run->environment.details;
  for (const char* key : {"results", "ttft", "metrics", "artifacts"}) json[key] = Json::array();
  for (const KernelRecord& k : store.kernel_results(run_id)) json["results"].push_back(kernel_json(k));
  std::vector<TtftRecord> ttft = store.ttft_results(run_id);
  json["spreads"] = spreads_json(metric_spreads(store.operator_results(run_id), ttft));
  for (const TtftRecord& t : ttft) {
    json["ttft"].push_back(ttft_json(t));
    json["ttft"].back()["spreads"] = spreads_json(ttft_spreads(t));
  }
  for (const MetricPoint& p : store.metric_points(run_id)) json["metrics"].push_back(to_json(p));
  for (const ArtifactRecord& a : store.artifacts(run_id)) json["artifacts"].push_back(to_json(a));
  return json;
}

std::optional<Json> samples_json(StoreReader& store, const std::string& run_id, const std::string& op,
                                 const std::string& scenario) {
  if (!store.run(run_id)) return std::nullopt;
  std::optional<KernelDetail> d = store.kernel_detail(run_id, op, scenario);
  if (!d) return std::nullopt;
  return Json{{"detail", d->detail}, {"samples", d->samples}, {"control_samples", d->control_samples}};
}

std::optional<Json> source_json(StoreReader& store, const std::string& sha256) {
  if (!is_sha256(sha256)) return std::nullopt;
  std::string text = store.artifact(sha256);
  bool truncated = text.size() > kMostText;
  if (truncated) text.resize(kMostText);
  return Json{{"text", text}, {"truncated", truncated}};
}

std::optional<Json> api_answer(StoreReader& store, std::string_view path) {
  constexpr std::string_view kPrefix = "/api/";
  if (!path.starts_with(kPrefix)) return std::nullopt;
  std::vector<std::string> whole = split(path.substr(kPrefix.size()), 2);
  const std::string& what = whole[0];
  if (whole.size() == 1) {
    if (what == "state") return Json{{"stamp", store.change_stamp()}};
    if (what == "overview") return overview_json(store);
    if (what == "runs") return runs_json(store, kMostRuns);
    return std::nullopt;
  }
  const std::string& rest = whole[1];
  if (what == "operator") return operator_page_json(store, rest);
  if (what == "model") return model_page_json(store, rest);
  if (what == "run") return run_page_json(store, rest);
  if (what == "source") return source_json(store, rest);
  if (what == "samples")
    if (std::vector<std::string> parts = split(rest, 3); parts.size() == 3)
      return samples_json(store, parts[0], parts[1], parts[2]);
  return std::nullopt;
}

}  // namespace fk
