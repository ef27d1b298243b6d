#include "cli/e2e_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/compiled_path.h"
#include "cli/engine_options.h"
#include "cli/output.h"
#include "cli/table.h"
#include "core/output_file.h"

namespace fk {
namespace {

// At every percent, for the dashboard's curves of a distribution.
Json percentiles(std::vector<double> values) {
  constexpr int kSteps = 100;
  Json list = Json::array();
  if (values.empty()) return list;
  std::sort(values.begin(), values.end());
  for (int i = 0; i <= kSteps; ++i) list.push_back(linear_quantile(values, static_cast<double>(i) / kSteps));
  return list;
}

Json rate_json(double rate) { return rate == 0 ? Json("inf") : Json(rate); }
std::string rate_text(double rate) { return rate == 0 ? "inf" : fmt::format("{:g}", rate); }

std::string concurrency_text(int64_t most) { return most == 0 ? "no limit" : std::to_string(most); }

// One row a load: what a curve of throughput over latency is drawn from.
Table load_table(const ServeReport& report) {
  std::vector<Table::Column> columns = {{"request_rate", "rate"},
                                        {"max_concurrency", "at once"},
                                        {"completed", "done"},
                                        {"failed", "failed"},
                                        {"duration", "s"},
                                        {"request_throughput", "req/s"},
                                        {"output_throughput", "out tok/s"},
                                        {"total_token_throughput", "tok/s"},
                                        {"mean_ttft_ms", "TTFT ms"},
                                        {"mean_tpot_ms", "TPOT ms"},
                                        {"p99_itl_ms", "p99 ITL ms"},
                                        {"mean_e2el_ms", "E2EL ms"}};
  if (report.goodput) columns.push_back({"request_goodput", "good req/s"});
  Table table(columns);
  for (const ServeLoad& load : report.loads) {
    const ServingMetrics& m = load.metrics;
    auto mean = [](const Distribution& d) { return d.count == 0 ? Cell() : Cell(d.mean, 2); };
    std::vector<Cell> row = {
        Cell(rate_json(load.request_rate), rate_text(load.request_rate)),
        Cell(load.max_concurrency == 0 ? Json() : Json(load.max_concurrency), concurrency_text(load.max_concurrency)),
        m.completed,
        m.failed,
        Cell(m.duration_s, 2),
        Cell(m.request_throughput, 2),
        Cell(m.output_throughput, 1),
        Cell(m.total_token_throughput, 1),
        mean(m.ttft_ms),
        mean(m.tpot_ms),
        m.itl_ms.count == 0 ? Cell() : Cell(m.itl_ms.p99, 2),
        mean(m.e2el_ms)};
    if (report.goodput) row.push_back(Cell(m.request_goodput, 2));
    table.add_row(std::move(row));
  }
  return table;
}

Table latency_table(const ServingMetrics& m) {
  Table table({{"metric", "ms"}, {"mean", "mean"}, {"median", "median"}, {"std", "std"}, {"p99", "p99"}});
  auto add = [&](const char* name, const Distribution& d) {
    if (d.count == 0) return;
    table.add_row({name, Cell(d.mean, 2), Cell(d.median, 2), Cell(d.std, 2), Cell(d.p99, 2)});
  };
  add("TTFT, time to first token", m.ttft_ms);
  add("TPOT, time per token after it", m.tpot_ms);
  add("ITL, gaps between tokens", m.itl_ms);
  add("E2EL, whole request", m.e2el_ms);
  return table;
}

}  // namespace

Json load_json(const ServedLoad& load, const ServingMetrics& metrics) {
  Json json;
  for (const auto& [name, value] : metric_values(metrics)) json[name] = value;
  json["completed"] = metrics.completed;
  json["failed"] = metrics.failed;
  json["total_input_tokens"] = metrics.input_tokens;
  json["total_output_tokens"] = metrics.output_tokens;
  json["max_concurrent_requests"] = metrics.peak_concurrency;
  std::vector<double> ttft, itl, e2el;
  for (const RequestTiming& r : load.requests) {
    if (!r.succeeded()) continue;
    ttft.push_back(1e3 * r.ttft_s);
    e2el.push_back(1e3 * r.e2el_s);
    for (double gap : r.itl_s) itl.push_back(1e3 * gap);
  }
  json["percentiles"] = {{"ttft_ms", percentiles(ttft)}, {"itl_ms", percentiles(itl)}, {"e2el_ms", percentiles(e2el)}};
  Json failures = Json::array();
  for (const auto& [sentence, count] : metrics.failures)
    failures.push_back({{"sentence", sentence}, {"requests", count}});
  json["failures"] = failures;
  return json;
}

Json serve_json(const ServeReport& report) {
  Json json = {{"version", FK_VERSION}, {"type", "serve"},           {"server", report.server},
               {"model", report.model}, {"dataset", report.dataset}, {"loads", Json::array()}};
  for (const ServeLoad& load : report.loads) {
    Json one = {{"request_rate", rate_json(load.request_rate)},
                {"max_concurrency", load.max_concurrency == 0 ? Json() : Json(load.max_concurrency)}};
    one.update(load_json(load.measured, load.metrics));
    if (Json guesses = speculation_json(load.server); !guesses.is_null()) one.update(guesses);
    if (load.server.steps > 0)
      one.update({{"engine_steps", load.server.steps}, {"compiled_steps", load.server.compiled_steps}});
    json["loads"].push_back(std::move(one));
  }
  return json;
}

void print_serve(const ServeReport& report, const CommonOptions& common) {
  if (common.json) return print_out(dump_json(serve_json(report)) + "\n");
  Table table = load_table(report);
  if (common.csv) return table.print(common);
  print_text(fmt::format("{} at {}, {} prompts\n\n", report.model, report.server, report.dataset));
  print_out(table.to_text());
  if (report.loads.size() == 1) {
    const ServingMetrics& m = report.loads[0].metrics;
    print_out("\n" + latency_table(m).to_text());
    print_out(fmt::format("\n{} tokens of prompts, {} generated; at most {} requests at the same time\n",
                          m.input_tokens, m.output_tokens, m.peak_concurrency));
    if (report.loads[0].server.drafts > 0) print_out(speculation_words(report.loads[0].server) + "\n");
    if (report.loads[0].server.compiled_steps > 0) print_out(compiled_share_text(report.loads[0].server) + "\n");
  }
  for (const ServeLoad& load : report.loads)
    for (const auto& [sentence, count] : load.metrics.failures)
      print_text(fmt::format("{} request{} failed: {}\n", count, count == 1 ? "" : "s", sentence));
}

void record_serve(Recorder& recorder, const ServeReport& report) {
  std::vector<MetricPoint> points;
  for (size_t i = 0; i < report.loads.size(); ++i) {
    auto add = [&](const std::string& name, double value) {
      points.push_back({name, value, static_cast<int64_t>(i), now_us()});
    };
    for (const auto& [name, value] : metric_values(report.loads[i].metrics)) add(name, value);
    if (Json guesses = speculation_json(report.loads[i].server); !guesses.is_null())
      for (const auto& [name, value] : guesses.items()) add(name, value.get<double>());
  }
  recorder.add(metrics_event(points));
  recorder.artifact("results/e2e.json", dump_json(serve_json(report)) + "\n");
}

void write_report(const std::string& path, const Json& json) { write_file(path, dump_json(json) + "\n"); }

}  // namespace fk
