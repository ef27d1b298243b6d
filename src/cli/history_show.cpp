// `history show` and `history diff`.
#include <fmt/format.h>

#include "cli/history.h"
#include "cli/output.h"
#include "cli/table.h"
#include "core/error.h"
#include "track/records_json.h"
#include "track/run_diff.h"

namespace fk {
namespace {

Json run_json(StoreReader& store, const RunRecord& run) {
  Json json = {{"run", to_json(run)},   {"operators", Json::array()}, {"results", Json::array()},
               {"ttft", Json::array()}, {"metrics", Json::array()},   {"artifacts", Json::array()}};
  for (const OperatorRecord& o : store.operator_results(run.id)) json["operators"].push_back(to_json(o));
  for (const KernelRecord& k : store.kernel_results(run.id)) json["results"].push_back(to_json(k));
  for (const TtftRecord& t : store.ttft_results(run.id)) json["ttft"].push_back(to_json(t));
  for (const MetricPoint& p : store.metric_points(run.id)) json["metrics"].push_back(to_json(p));
  for (const ArtifactRecord& a : store.artifacts(run.id)) json["artifacts"].push_back(to_json(a));
  return json;
}

Table result_table(StoreReader& store, const std::string& run_id) {
  Table table({{"operator", "OPERATOR"},
               {"scenario", "SCENARIO"},
               {"verdict", "VERDICT"},
               {"err_ratio", "ERR_RATIO"},
               {"baseline_ns", "BASELINE us"},
               {"candidate_ns", "CANDIDATE us"},
               {"speedup", "SPEEDUP"},
               {"interval", "99 % INTERVAL"},
               {"speed_verdict", "SPEED"},
               {"of_floor", "% OF FLOOR"}});
  auto micro = [](std::optional<double> ns) {
    return ns ? Cell(Json(*ns), fmt::format("{:.2f}", *ns * 1e-3)) : Cell();
  };
  for (const KernelRecord& k : store.kernel_results(run_id))
    table.add_row({k.op, k.scenario, k.verdict, Cell(k.err_ratio, 2), micro(k.baseline_ns), micro(k.candidate_ns),
                   k.speedup ? Cell(Json(*k.speedup), speedup_text(k.speedup)) : Cell(), interval_text(k.low, k.high),
                   k.invalid.empty() ? (k.speed_verdict.empty() ? Cell() : Cell(k.speed_verdict)) : Cell("INVALID"),
                   k.of_floor ? Cell(Json(*k.of_floor), fmt::format("{:.0f} %", 100 * *k.of_floor)) : Cell()});
  return table;
}

Table ttft_table(StoreReader& store, const std::string& run_id) {
  Table table({{"path", "PATH"},
               {"model", "MODEL"},
               {"config", "CONFIG"},
               {"dtype", "DTYPE"},
               {"prompt_tokens", "PROMPT"},
               {"search_iters", "BUDGET"},
               {"ttft_sequential_ms", "TTFT SEQ ms"},
               {"ttft_ms", "TTFT ms"},
               {"tpot_ms", "TPOT ms"},
               {"throughput_tps", "tok/s"},
               {"compile_ms", "SEARCH ms"},
               {"error", "ERROR"},
               {"note", "NOTE"}});
  for (const TtftRecord& t : store.ttft_results(run_id))
    table.add_row({t.path, t.model, t.config.empty() || t.config == t.model ? Cell() : Cell(t.config), t.dtype,
                   t.prompt_tokens, t.search_iters ? Cell(*t.search_iters) : Cell(), Cell(t.ttft_sequential_ms, 3),
                   Cell(t.ttft_ms, 3), Cell(t.tpot_ms, 3), Cell(t.throughput_tps, 1), Cell(t.compile_ms, 1),
                   t.error.empty() ? Cell() : Cell(t.error), t.note.empty() ? Cell() : Cell(t.note)});
  return table;
}

std::string section(const std::string& title, const std::string& body) {
  return body.empty() ? "" : fmt::format("\n{}\n{}", title, body);
}

std::string pairs_text(const std::map<std::string, std::string>& pairs) {
  std::string text;
  size_t width = 0;
  for (const auto& [key, value] : pairs) width = std::max(width, key.size());
  for (const auto& [key, value] : pairs) text += fmt::format("  {:{}}  {}\n", key, width, value);
  return text;
}

std::string header_text(const RunRecord& r) {
  const Environment& e = r.environment;
  std::map<std::string, std::string> lines;
  std::string text = fmt::format("{}\n  run      {}\n  status   {}{}\n  started  {} UTC", r.name, r.id, r.status,
                                 r.error.empty() ? "" : ": " + r.error, utc_text(r.started_us));
  if (r.ended_us) text += fmt::format(", took {:.1f} s", static_cast<double>(*r.ended_us - r.started_us) * 1e-6);
  text += fmt::format("\n  machine  {} on {}, {}\n", e.host.empty() ? "unknown" : e.host, e.device, e.device_name());
  if (!e.git_commit.empty())
    text += fmt::format("  commit   {} on {}{}\n", e.git_commit.substr(0, 12), e.git_branch,
                        e.git_dirty ? ", with changes" : "");
  return text;
}

}  // namespace

void print_run(StoreReader& store, const std::string& run_id, const CommonOptions& common) {
  std::optional<RunRecord> run = store.run(run_id);
  if (!run) throw Error("There is no run {} in {}; `fastkernels history` lists them.", run_id, store.path());
  if (common.json) return print_out(dump_json(run_json(store, *run)) + "\n");
  Table results = result_table(store, run_id), ttft = ttft_table(store, run_id);
  if (common.csv) return (results.rows() == 0 && ttft.rows() > 0 ? ttft : results).print(common);
  std::string text = header_text(*run);
  text += section("Parameters", pairs_text(run->params)) + section("Tags", pairs_text(run->tags));
  std::map<std::string, std::string> metrics;
  for (const auto& [key, value] : run->metrics) metrics[key] = fmt::format("{:.6g}", value);
  text += section("Metrics", pairs_text(metrics));
  if (results.rows() > 0) text += section("Results", results.to_text());
  if (ttft.rows() > 0) text += section("Results", ttft.to_text());
  for (const KernelRecord& k : store.kernel_results(run_id))
    if (!k.passed())
      text += fmt::format("{} {}: {}: {}\n", k.op, k.scenario, k.verdict, k.sentence);
    else if (!k.invalid.empty())
      text += fmt::format("{} {}: {}\n", k.op, k.scenario, k.invalid);
  std::map<std::string, std::string> artifacts;
  for (const ArtifactRecord& a : store.artifacts(run_id))
    artifacts[a.path] = fmt::format("{}  {}", human_bytes(static_cast<uint64_t>(a.size_bytes)), a.sha256.substr(0, 12));
  text += section("Artifacts (show --artifact PATH prints one)", pairs_text(artifacts));
  print_text(text);
}

namespace {

Json diff_json(const std::string& before, const std::string& after, const RunDiff& diff) {
  auto known = [](std::optional<double> v) { return v ? Json(*v) : Json(); };
  Json json = {{"before", before},         {"after", after},
               {"params", Json::array()},  {"environment", Json::array()},
               {"metrics", Json::array()}, {"scenarios", Json::array()},
               {"sources", diff.sources}};
  for (const PairDiff& d : diff.params)
    json["params"].push_back({{"key", d.key}, {"before", d.before}, {"after", d.after}});
  for (const PairDiff& d : diff.environment)
    json["environment"].push_back({{"key", d.key}, {"before", d.before}, {"after", d.after}});
  for (const MetricDiff& d : diff.metrics)
    json["metrics"].push_back(
        {{"key", d.key}, {"before", known(d.before)}, {"after", known(d.after)}, {"noise", noise_name(d.noise)}});
  for (const ScenarioDiff& d : diff.scenarios)
    json["scenarios"].push_back({{"operator", d.op},
                                 {"scenario", d.scenario},
                                 {"before_verdict", d.before_verdict},
                                 {"after_verdict", d.after_verdict},
                                 {"before", known(d.before)},
                                 {"after", known(d.after)},
                                 {"noise", noise_name(d.noise)}});
  return json;
}

Cell change(std::optional<double> before, std::optional<double> after) {
  if (!before || !after) return {};
  if (*before == 0) return {Json(*after - *before), fmt::format("{:+.4g}", *after - *before)};
  double share = *after / *before - 1;
  return {Json(share), fmt::format("{:+.1f} %", 100 * share)};
}

Table metric_table(const RunDiff& diff) {
  Table table(
      {{"metric", "METRIC"}, {"before", "BEFORE"}, {"after", "AFTER"}, {"change", "CHANGE"}, {"noise", "NOISE"}});
  for (const MetricDiff& d : diff.metrics)
    table.add_row(
        {d.key, Cell(d.before, 4), Cell(d.after, 4), change(d.before, d.after), std::string(noise_name(d.noise))});
  return table;
}

Table scenario_table(const RunDiff& diff) {
  Table table({{"operator", "OPERATOR"},
               {"scenario", "SCENARIO"},
               {"before_verdict", "VERDICT BEFORE"},
               {"after_verdict", "VERDICT AFTER"},
               {"before", "SPEEDUP BEFORE"},
               {"after", "SPEEDUP AFTER"},
               {"change", "CHANGE"},
               {"noise", "NOISE"}});
  auto word = [](const std::string& text) { return text.empty() ? Cell() : Cell(text); };
  for (const ScenarioDiff& d : diff.scenarios)
    table.add_row({d.op, d.scenario, word(d.before_verdict), word(d.after_verdict), Cell(d.before, 3), Cell(d.after, 3),
                   change(d.before, d.after), d.before && d.after ? Cell(std::string(noise_name(d.noise))) : Cell()});
  return table;
}

std::string changed_text(const std::vector<PairDiff>& pairs) {
  std::string text;
  for (const PairDiff& d : pairs)
    text += fmt::format("  {}: {} -> {}\n", d.key, d.before.empty() ? "(none)" : d.before,
                        d.after.empty() ? "(none)" : d.after);
  return text;
}

}  // namespace

void print_diff(StoreReader& store, const std::string& before, const std::string& after, const CommonOptions& common) {
  RunDiff diff = diff_runs(store, before, after);
  if (common.json) return print_out(dump_json(diff_json(before, after, diff)) + "\n");
  Table metrics = metric_table(diff), scenarios = scenario_table(diff);
  if (common.csv) return (scenarios.rows() > 0 ? scenarios : metrics).print(common);
  std::string text = fmt::format("before  {}\nafter   {}\n", before, after);
  text += section("Parameters that differ", changed_text(diff.params));
  text += section("Environment that differs", changed_text(diff.environment));
  if (metrics.rows() > 0) text += section("Metrics", metrics.to_text());
  if (scenarios.rows() > 0) text += section("Scenarios", scenarios.to_text());
  for (const std::string& source : diff.sources) text += "\n" + source;
  if (diff.sources.empty()) text += "\nThe candidates' sources are the same.\n";
  print_text(text);
}

}  // namespace fk
