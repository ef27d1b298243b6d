#include "cli/e2e_engine_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cli/compiled_path.h"
#include "cli/e2e_report.h"
#include "cli/engine_options.h"
#include "cli/output.h"
#include "cli/table.h"
#include "measure/statistics.h"

namespace fk {
namespace {

std::vector<double> durations_s(const EngineBenchResult& result) {
  std::vector<double> list;
  for (const ServedLoad& load : result.loads) list.push_back(load.duration_s);
  return list;
}

// The requests of all loads as if they were one.
ServedLoad joined_loads(const EngineBenchResult& result) {
  ServedLoad all;
  for (const ServedLoad& load : result.loads) {
    all.requests.insert(all.requests.end(), load.requests.begin(), load.requests.end());
    all.duration_s += load.duration_s;
  }
  return all;
}

bool is_throughput(const Json& json) { return json.at("type") == "throughput"; }
// A comparison of the tree and plans, instead of the baseline and candidates.
bool is_compiled(const Json& json) { return json.value("sides", "") == "compiled"; }

// What part of the steps plans ran, and what these plans are.
std::string plan_lines(const Json& printed) {
  EngineStats stats;
  stats.steps = printed.at("engine").at("steps").get<int64_t>();
  stats.compiled_steps = printed.at("engine").at("compiled_steps").get<int64_t>();
  return fmt::format("compiled: {}\n{}\n", compiled_share_text(stats),
                     printed.at("plan").at("text").get<std::string>());
}

std::string model_line(const Json& json) {
  int64_t tp = json.at("tp").get<int64_t>(), threads = json.at("threads").get<int64_t>();
  return fmt::format("{}, {} on {} with {} thread{}{}", json.at("model").get<std::string>(),
                     json.at("dtype").get<std::string>(), json.at("device").get<std::string>(), threads,
                     threads == 1 ? "" : "s", tp == 1 ? "" : fmt::format(" on each of {} ranks", tp));
}

// Largest first; small ones together.
Table share_table(const Json& attribution) {
  constexpr size_t kMostRows = 12;
  Table table({{"operator", "operator"},
               {"implementation", "implementation"},
               {"calls", "calls"},
               {"own_ms", "ms"},
               {"share", "share of the load"}});
  double rest = attribution.at("rest").get<double>(), small = 0, small_ms = 0;
  int64_t small_calls = 0;
  auto percent = [](double share) { return Cell(Json(share), fmt::format("{:.1f} %", 100 * share)); };
  for (const Json& s : attribution.at("operators")) {
    if (table.rows() == kMostRows) {
      small += s.at("share").get<double>();
      small_ms += s.at("own_ms").get<double>();
      small_calls += s.at("calls").get<int64_t>();
      continue;
    }
    table.add_row({s.at("operator").get<std::string>(), s.at("implementation").get<std::string>(),
                   s.at("calls").get<int64_t>(), Cell(s.at("own_ms").get<double>(), 1),
                   percent(s.at("share").get<double>())});
  }
  if (small_calls > 0) table.add_row({"others", Cell(), small_calls, Cell(small_ms, 1), percent(small)});
  table.add_row({"planning, drawing tokens, output", Cell(), Cell(),
                 Cell(rest * attribution.at("load_ms").get<double>(), 1), percent(rest)});
  return table;
}

std::string speedup_or_dash(const Json& value) {
  return value.is_null() ? "-" : fmt::format("{:.3f}x", value.get<double>());
}

Table gain_table(const Json& json) {
  Table table({{"operator", "candidate"},
               {"share", "share of the load"},
               {"alone", "alone"},
               {"in_model", "in the model"},
               {"expected", "the model gains"}});
  for (const Json& g : json.at("gains"))
    table.add_row({g.at("operator").get<std::string>(),
                   Cell(g.at("share"), fmt::format("{:.1f} %", 100 * g.at("share").get<double>())),
                   Cell(g.at("alone"), speedup_or_dash(g.at("alone"))),
                   Cell(g.at("in_model"), speedup_or_dash(g.at("in_model"))),
                   Cell(g.at("expected"), speedup_or_dash(g.at("expected")))});
  return table;
}

Table side_table(const Json& json) {
  const Json& m = json.at("metrics");
  auto number = [&](const char* key, int decimals) {
    auto found = m.find(key);
    return found == m.end() ? Cell() : Cell(found->get<double>(), decimals);
  };
  if (is_throughput(json)) {
    Table table({{"num_requests", "requests"},
                 {"elapsed_time", "s"},
                 {"requests_per_second", "req/s"},
                 {"tokens_per_second", "tok/s"},
                 {"output_tokens_per_second", "out tok/s"},
                 {"mean_ttft_ms", "TTFT ms"},
                 {"mean_tpot_ms", "TPOT ms"},
                 {"p99_itl_ms", "p99 ITL ms"}});
    table.add_row({m.at("num_requests").get<int64_t>(), number("elapsed_time", 2), number("requests_per_second", 2),
                   number("tokens_per_second", 1), number("output_tokens_per_second", 1), number("mean_ttft_ms", 2),
                   number("mean_tpot_ms", 2), number("p99_itl_ms", 2)});
    return table;
  }
  Table table({{"num_iters", "batches"},
               {"avg_latency", "mean s"},
               {"p50_latency", "p50"},
               {"p90_latency", "p90"},
               {"p99_latency", "p99"},
               {"tokens_per_second", "tok/s"},
               {"mean_ttft_ms", "TTFT ms"},
               {"mean_tpot_ms", "TPOT ms"}});
  table.add_row({m.at("num_iters").get<int64_t>(), number("avg_latency", 4), number("p50_latency", 4),
                 number("p90_latency", 4), number("p99_latency", 4), number("tokens_per_second", 1),
                 number("mean_ttft_ms", 2), number("mean_tpot_ms", 2)});
  return table;
}

// The metric that the sides are compared by.
const char* main_metric(bool throughput) { return throughput ? "tokens_per_second" : "avg_latency"; }

Table compare_table(const Json& json) {
  const bool throughput = is_throughput(json), three = json.contains("unfused");
  const bool compiled = is_compiled(json);
  std::vector<Table::Column> columns = {{"what", "what"},
                                        {"baseline", compiled ? "eager"
                                                     : three  ? "fused baseline"
                                                              : "baseline"}};
  if (three) columns.push_back({"unfused", "unfused baseline"});
  for (const Table::Column& c : std::vector<Table::Column>{{"candidate", compiled ? "compiled" : "candidates"},
                                                           {"speedup", "speed-up"},
                                                           {"speedup_low", "low"},
                                                           {"speedup_high", "high"},
                                                           {"verdict", "verdict"},
                                                           {"control_error", "A/A"}})
    columns.push_back(c);
  Table table(columns);
  auto value = [&](const char* side) {
    return Cell(json.at(side).at("metrics").at(main_metric(throughput)).get<double>(), throughput ? 1 : 4);
  };
  std::vector<Cell> row = {throughput ? "throughput, tok/s" : "latency, s", value("baseline")};
  if (three) row.push_back(value("unfused"));
  const Json& gain = json.at("comparison").at("gain");
  row.push_back(value("candidate"));
  row.push_back(Cell(gain.at("speedup"), speedup_or_dash(gain.at("speedup"))));
  row.push_back(Cell(gain.at("speedup_low").get<double>(), 3));
  row.push_back(Cell(gain.at("speedup_high").get<double>(), 3));
  row.push_back(gain.at("verdict").get<std::string>());
  double control = gain.at("control_error").get<double>();
  row.push_back(Cell(Json(control), fmt::format("{:.1f} %", 100 * control)));
  table.add_row(std::move(row));
  return table;
}

std::string gain_text(const Json& c) {
  return fmt::format("{:.3f}x ({:.3f} .. {:.3f}, {})", c.at("speedup").get<double>(), c.at("speedup_low").get<double>(),
                     c.at("speedup_high").get<double>(), c.at("verdict").get<std::string>());
}

void print_comparison_text(const Json& json) {
  const bool compiled = is_compiled(json);
  print_text(fmt::format("{}: {}, in {} alternating processes\n", model_line(json),
                         compiled ? "by plans and by the tree" : "with candidates and without",
                         json.at("processes").get<int64_t>()));
  std::string names;
  for (const Json& use : json.at("candidates"))
    names += fmt::format("{}{} in {} places", names.empty() ? "" : ", ", use.at("operator").get<std::string>(),
                         use.at("active_places").get<int64_t>());
  std::string doubt = json.at("doubt").get<std::string>();
  if (!names.empty() || !compiled)
    print_text(fmt::format("candidates{}: {}{}\n", compiled ? " on both sides" : "", names,
                           doubt.empty() ? "" : fmt::format(" ({})", doubt)));
  print_out("\n" + compare_table(json).to_text());
  print_out(
      fmt::format("\nspeed-up with its 99 % interval, above 1 where {} make the model faster; A/A: {} against "
                  "itself\n",
                  compiled ? "plans" : "candidates", compiled ? "eager" : "the baseline"));
  if (compiled) print_text(plan_lines(json));
  const Json& comparison = json.at("comparison");
  if (const std::string why = comparison.at("gain").at("invalid").get<std::string>(); !why.empty())
    print_text(why + "\n");
  if (compiled && json.at("engine").at("compiled_steps") == 0)
    print_out("No step was run by a plan, so both sides ran the same kernels.\n");
  if (!compiled && json.at("candidate_calls") == 0)
    print_out("No candidate ran in this model, so both sides ran the same kernels.\n");
  if (json.contains("unfused")) {
    std::string displaced;
    for (const Json& name : json.at("displaced"))
      displaced += (displaced.empty() ? "" : ", ") + name.get<std::string>();
    print_text(fmt::format("\nThe candidates displace fused kernels ({}).\n", displaced));
    if (comparison.contains("own"))
      print_out(
          fmt::format("candidates against the baseline without these fusions: {}\n", gain_text(comparison.at("own"))));
    print_out(
        fmt::format("the baseline without these fusions against the baseline: {}\n", gain_text(comparison.at("lost"))));
  }
  if (!json.contains("attribution")) return;
  print_out("\nwhere the time of " + std::string(compiled ? "the tree" : "the baseline") +
            " goes, by a clock around every operator in three more loads\n\n");
  print_out(share_table(json.at("attribution").at("baseline")).to_text());
  if (compiled) {
    print_out("\nthe same of plans; a generated kernel has the names of the operators it stands for\n\n");
    print_out(share_table(json.at("attribution").at("candidate")).to_text());
    return;
  }
  if (json.at("gains").empty()) return;
  print_out("\nwhat the candidates can give: their share of the time, and how much faster they are\n\n");
  print_out(gain_table(json).to_text());
  print_out(fmt::format("\nexpected {:.3f}x (Amdahl's law over these shares), measured {}\n",
                        json.at("expected_speedup").get<double>(), gain_text(comparison.at("gain"))));
}

}  // namespace

Json engine_metrics_json(bool throughput, const EngineBenchResult& result) {
  ServedLoad all = joined_loads(result);
  ServingMetrics serving = serving_metrics(all.requests, all.duration_s);
  std::vector<double> seconds = durations_s(result), ms;
  for (double s : seconds) ms.push_back(1e3 * s);
  Json metrics;
  if (throughput) {
    metrics = {{"elapsed_time", all.duration_s},
               {"num_requests", serving.completed},
               {"total_num_tokens", serving.input_tokens + serving.output_tokens},
               {"requests_per_second", serving.request_throughput}};
  } else {
    metrics = {{"num_iters", static_cast<int64_t>(seconds.size())},
               {"avg_latency", std::accumulate(seconds.begin(), seconds.end(), 0.0) /
                                   std::max<double>(1, static_cast<double>(seconds.size()))}};
    for (auto [percent, value] : latency_percentiles(seconds)) metrics[fmt::format("p{}_latency", percent)] = value;
  }
  metrics["tokens_per_second"] = serving.total_token_throughput;
  metrics["output_tokens_per_second"] = serving.output_throughput;
  for (const auto& [name, value] : metric_values(serving))
    if (name.ends_with("_ms")) metrics[name] = value;
  Json json = {{"metrics", metrics}, {"samples_ms", ms}};
  json["percentiles"] = load_json(all, serving).at("percentiles");
  const EngineStats& s = result.stats;
  json["engine"] = {{"steps", s.steps},
                    {"compiled_steps", s.compiled_steps},
                    {"step_seconds", s.step_seconds},
                    {"host_seconds", s.host_seconds},
                    {"preemptions", s.preemptions},
                    {"prompt_tokens", s.prompt_tokens},
                    {"generated_tokens", s.generated_tokens},
                    {"cached_prompt_tokens", s.cached_prompt_tokens},
                    {"blocks_total", s.blocks_total}};
  if (Json speculation = speculation_json(s); !speculation.is_null()) {
    json["metrics"].update(speculation);
    json["engine"]["speculation"] = speculation_words(s);
  }
  if (result.attribution) json["attribution"] = to_json(*result.attribution);
  return json;
}

Json compare_json(bool throughput, const Sides& sides, const std::vector<CandidateRecord>& judged) {
  const Json &first = sides.first_candidate, &base = sides.first_baseline;
  Json json = {{"version", FK_VERSION}, {"type", throughput ? "throughput" : "latency"}, {"mode", "compare"}};
  for (const char* key : {"model", "device", "dtype", "threads", "tp", "machine", "candidates", "cxxflags",
                          "dispatches", "plan", "speculative_config"})
    if (first.contains(key)) json[key] = first[key];
  if (sides.compiled) {
    json["sides"] = "compiled";
    json["engine"] = first.at("engine");
  }
  json["processes"] = sides.baseline.size() + sides.candidate.size() + sides.unfused.size();
  json["candidate_calls"] = sides.candidate_calls;
  json["doubt"] = describe_judged(judged);
  // Metrics of the first process, with the one that is compared over all of them.
  auto side = [&](const Json& printed, const std::vector<ProcessTimes>& times) {
    Json one = {{"metrics", printed.at("metrics")}, {"percentiles", printed.at("percentiles")}, {"samples_ms", times}};
    std::vector<double> all;
    for (const ProcessTimes& t : times) all.insert(all.end(), t.begin(), t.end());
    Json& metrics = one["metrics"];
    // Every load has as many tokens as the others, or nearly so where lengths vary.
    double tokens = metrics.contains("total_num_tokens") ? metrics["total_num_tokens"].get<double>() : 0;
    if (throughput)
      metrics["tokens_per_second"] = tokens / static_cast<double>(times.front().size()) * 1e3 / median(all);
    else
      metrics["avg_latency"] = std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size()) * 1e-3;
    return one;
  };
  json["baseline"] = side(base, sides.baseline);
  json["candidate"] = side(first, sides.candidate);
  json["comparison"]["gain"] = paired_json(sides.gain);
  if (!sides.unfused.empty()) {
    json["unfused"] = side(sides.first_unfused, sides.unfused);
    json["displaced"] = sides.displaced;
    if (sides.own) json["comparison"]["own"] = paired_json(*sides.own);
    json["comparison"]["lost"] = paired_json(*sides.lost);
  }
  if (!base.contains("attribution") || !first.contains("attribution")) return json;
  json["attribution"] = {{"baseline", base["attribution"]}, {"candidate", first["attribution"]}};
  if (sides.compiled) return json;  // candidates are on both sides
  Attribution before = attribution_from_json(base["attribution"]), after = attribution_from_json(first["attribution"]);
  std::vector<CandidateGain> gains;
  json["gains"] = Json::array();
  for (const CandidateRecord& r : judged) {
    CandidateGain g = candidate_gain(r.op, before, after, r.speedup);
    gains.push_back(g);
    json["gains"].push_back({{"operator", g.op},
                             {"share", g.share},
                             {"alone", g.alone ? Json(*g.alone) : Json()},
                             {"in_model", g.in_model ? Json(*g.in_model) : Json()},
                             {"expected", expected_together({g})}});
  }
  json["expected_speedup"] = expected_together(gains);
  return json;
}

void print_engine_report(const Json& json, const CommonOptions& common) {
  if (common.json) return print_out(dump_json(json) + "\n");
  const bool compare = json.at("mode") == "compare";
  Table table = compare ? compare_table(json) : side_table(json);
  if (common.csv) return table.print(common);
  if (compare) return print_comparison_text(json);
  print_text(fmt::format("{}\n", model_line(json)));
  if (const std::string uses = json.at("uses").get<std::string>(); !uses.empty()) {
    const std::string doubt = json.at("doubt").get<std::string>();
    print_text(uses + (doubt.empty() ? "" : fmt::format(" ({})", doubt)) + "\n");
  }
  if (json.contains("plan")) print_text(plan_lines(json));
  print_out("\n" + table.to_text());
  const Json& engine = json.at("engine");
  double steps = std::max(1.0, engine.at("steps").get<double>());
  print_out(
      fmt::format("\n{} steps of {:.2f} ms, of which {:.3f} ms planning, drawing and output; {} of {} prompt "
                  "tokens from the prefix cache\n",
                  engine.at("steps").get<int64_t>(), 1e3 * engine.at("step_seconds").get<double>() / steps,
                  1e3 * engine.at("host_seconds").get<double>() / steps,
                  engine.at("cached_prompt_tokens").get<int64_t>(), engine.at("prompt_tokens").get<int64_t>()));
  if (engine.contains("speculation")) print_out(engine.at("speculation").get<std::string>() + "\n");
  if (!json.contains("attribution")) return;
  print_out("\nwhere the time goes, by a clock around every operator in three more loads\n\n");
  print_out(share_table(json.at("attribution")).to_text());
}

void record_engine_report(Recorder& recorder, const Json& json) {
  std::vector<MetricPoint> points;
  auto add = [&](const std::string& name, double value) { points.push_back({name, value, 0, now_us()}); };
  const bool compare = json.at("mode") == "compare", throughput = is_throughput(json);
  const Json& metrics = compare ? json.at("candidate").at("metrics") : json.at("metrics");
  for (const auto& [name, value] : metrics.items()) add(name, value.get<double>());
  if (compare) {
    const std::string name = throughput ? "throughput" : "latency";
    const Json& gain = json.at("comparison").at("gain");
    add("baseline_" + std::string(main_metric(throughput)),
        json.at("baseline").at("metrics").at(main_metric(throughput)).get<double>());
    add(name + "_speedup", gain.at("speedup").get<double>());
    add(name + "_speedup_low", gain.at("speedup_low").get<double>());
    add(name + "_speedup_high", gain.at("speedup_high").get<double>());
    add(name + "_control_error", gain.at("control_error").get<double>());
    if (json.contains("expected_speedup")) add("expected_speedup", json.at("expected_speedup").get<double>());
    if (json.contains("gains"))
      for (const Json& g : json.at("gains"))
        add(g.at("operator").get<std::string>() + "_share", g.at("share").get<double>());
    recorder.add(pairs_event("tags", {{name + "_verdict", gain.at("verdict").get<std::string>()}}));
  }
  if (json.contains("plan"))
    add("compiled_step_share", json.at("engine").at("compiled_steps").get<double>() /
                                   std::max(1.0, json.at("engine").at("steps").get<double>()));
  recorder.add(metrics_event(points));
  recorder.artifact("results/e2e.json", dump_json(json) + "\n");
}

}  // namespace fk
