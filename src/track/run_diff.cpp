#include "track/run_diff.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "track/text_diff.h"

namespace fk {
namespace {

using Pairs = std::map<std::string, std::string>;

std::vector<PairDiff> diff_pairs(const Pairs& before, const Pairs& after) {
  std::set<std::string> keys;
  for (const auto& [key, value] : before) keys.insert(key);
  for (const auto& [key, value] : after) keys.insert(key);
  std::vector<PairDiff> diffs;
  auto of = [](const Pairs& pairs, const std::string& key) {
    auto found = pairs.find(key);
    return found == pairs.end() ? std::string() : found->second;
  };
  for (const std::string& key : keys)
    if (of(before, key) != of(after, key)) diffs.push_back({key, of(before, key), of(after, key)});
  return diffs;
}

Pairs environment_pairs(const RunRecord& r) {
  const Environment& e = r.environment;
  auto detail = [&](const char* key) { return e.details.is_object() ? e.details.value(key, "") : ""; };
  return {{"commit", e.git_commit + (e.git_dirty ? " with changes" : "")},
          {"branch", e.git_branch},
          {"host", e.host},
          {"device", e.device},
          {"device name", e.device_name()},
          {"driver", e.gpu_driver},
          {"CUDA", e.cuda_version},
          {"built with", detail("built_with")},
          {"build flags", detail("build_flags")}};
}

std::map<std::string, Spread> spreads(StoreReader& store, const std::string& run_id) {
  return metric_spreads(store.operator_results(run_id), store.ttft_results(run_id));
}

bool counts(const std::string& key) { return key.ends_with("_passed") || key.ends_with("_failed"); }

std::vector<MetricDiff> diff_metrics(StoreReader& store, const RunRecord& before, const RunRecord& after) {
  std::map<std::string, Spread> a = spreads(store, before.id), b = spreads(store, after.id);
  std::map<std::string, MetricDiff> all;
  for (const auto& [key, value] : before.metrics) all[key].before = value;
  for (const auto& [key, value] : after.metrics) all[key].after = value;
  std::vector<MetricDiff> diffs;
  for (auto& [key, diff] : all) {
    diff.key = key;
    diff.noise = counts(key) ? Noise::kExact : compare_intervals(a[key].low, a[key].high, b[key].low, b[key].high);
    diffs.push_back(diff);
  }
  return diffs;
}

std::vector<ScenarioDiff> diff_scenarios(StoreReader& store, const std::string& before, const std::string& after) {
  std::map<std::pair<std::string, std::string>, std::pair<std::optional<KernelRecord>, std::optional<KernelRecord>>>
      both;
  for (KernelRecord& k : store.kernel_results(before)) both[{k.op, k.scenario}].first = std::move(k);
  for (KernelRecord& k : store.kernel_results(after)) both[{k.op, k.scenario}].second = std::move(k);
  std::vector<ScenarioDiff> diffs;
  for (const auto& [name, sides] : both) {
    const auto& [a, b] = sides;
    ScenarioDiff d{name.first, name.second, a ? a->verdict : "", b ? b->verdict : "", {}, {}, Noise::kUnknown};
    if (a && a->passed()) d.before = a->speedup;
    if (b && b->passed()) d.after = b->speedup;
    if (d.before && d.after) d.noise = compare_intervals(a->low, a->high, b->low, b->high);
    diffs.push_back(std::move(d));
  }
  return diffs;
}

std::vector<std::string> diff_sources(StoreReader& store, const std::string& before, const std::string& after) {
  std::map<std::string, std::pair<std::string, std::string>> files;  // path -> SHA-256 of either
  auto collect = [&](const std::string& run, auto member) {
    for (const ArtifactRecord& a : store.artifacts(run))
      if (a.path.starts_with("kernels/")) files[a.path].*member = a.sha256;
  };
  collect(before, &std::pair<std::string, std::string>::first);
  collect(after, &std::pair<std::string, std::string>::second);
  std::vector<std::string> diffs;
  for (const auto& file : files) {
    const auto& [before_sha, after_sha] = file.second;
    auto text = [&](const std::string& sha) { return sha.empty() ? std::string() : store.artifact(sha); };
    auto name = [&](const std::string& sha, const std::string& run) {
      return sha.empty() ? std::string("/dev/null") : fmt::format("{}/{}", run, file.first);
    };
    std::string diff =
        unified_diff(text(before_sha), text(after_sha), name(before_sha, before), name(after_sha, after));
    if (!diff.empty()) diffs.push_back(std::move(diff));
  }
  return diffs;
}

}  // namespace

std::map<std::string, Spread> ttft_spreads(const TtftRecord& result) {
  std::map<std::string, Spread> known;
  auto range = [&](const char* samples, std::initializer_list<const char*> keys) {
    auto found = result.samples.find(samples);
    if (found == result.samples.end() || found->size() < 3) return;
    auto values = found->get<std::vector<double>>();
    auto [low, high] = std::minmax_element(values.begin(), values.end());
    for (const char* key : keys) known[key] = {*low, *high};
  };
  range("prefill", {"ttft_ms", "mean_ttft_ms"});
  range("decode", {"tpot_ms", "mean_tpot_ms"});
  range("sequential", {"ttft_sequential_ms"});
  if (auto tpot = known.find("tpot_ms"); tpot != known.end())
    known["tokens_per_second"] = {1e3 / *tpot->second.high, 1e3 / *tpot->second.low};
  return known;
}

std::map<std::string, Spread> metric_spreads(const std::vector<OperatorRecord>& operators,
                                             const std::vector<TtftRecord>& ttft) {
  std::map<std::string, Spread> known;
  if (ttft.size() == 1) known = ttft_spreads(ttft[0]);  // the run's metrics are those of its only path
  for (const OperatorRecord& o : operators) known[o.op + "_avg_speedup"] = {o.low, o.high};
  if (operators.size() == 1) known["avg_speedup"] = {operators[0].low, operators[0].high};
  return known;
}

std::string_view noise_name(Noise noise) {
  static constexpr std::string_view kNames[] = {"beyond noise", "within noise", "exact", "noise unknown"};
  return kNames[static_cast<size_t>(noise)];
}

Noise compare_intervals(std::optional<double> low_a, std::optional<double> high_a, std::optional<double> low_b,
                        std::optional<double> high_b) {
  if (!low_a || !high_a || !low_b || !high_b) return Noise::kUnknown;
  return *high_a < *low_b || *high_b < *low_a ? Noise::kBeyond : Noise::kWithin;
}

RunDiff diff_runs(StoreReader& store, const std::string& before, const std::string& after) {
  std::optional<RunRecord> a = store.run(before), b = store.run(after);
  if (!a || !b)
    throw Error("There is no run {} in {}; `fastkernels history` lists them.", a ? after : before, store.path());
  RunDiff diff;
  diff.params = diff_pairs(a->params, b->params);
  diff.environment = diff_pairs(environment_pairs(*a), environment_pairs(*b));
  diff.metrics = diff_metrics(store, *a, *b);
  diff.scenarios = diff_scenarios(store, before, after);
  diff.sources = diff_sources(store, before, after);
  return diff;
}

}  // namespace fk
