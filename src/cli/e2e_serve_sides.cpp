#include "cli/e2e_serve_sides.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/compiled_path.h"
#include "cli/own_process.h"
#include "cli/side_processes.h"
#include "cli/table.h"
#include "core/error.h"
#include "measure/statistics.h"

namespace fk {
namespace {

// What clients see, in ms: smaller is better.
struct ComparedTime {
  const char* key;
  const char* title;
  double (*of)(const ServingMetrics& m);
};
constexpr std::array<ComparedTime, 4> kTimes = {{
    {"ttft", "TTFT, mean ms", [](const ServingMetrics& m) { return m.ttft_ms.mean; }},
    {"tpot", "TPOT, mean ms", [](const ServingMetrics& m) { return m.tpot_ms.mean; }},
    {"e2el", "E2EL, mean ms", [](const ServingMetrics& m) { return m.e2el_ms.mean; }},
    {"load", "whole load, ms", [](const ServingMetrics& m) { return 1e3 * m.duration_s; }},
}};

// All loads on one server.
struct ServerRun {
  std::array<ProcessTimes, kTimes.size()> times;
  Json first;  // of its first load
  ServerCounts counts;
};

class ServerSide {
 public:
  ServerSide(const ServeSidesRequest& request, const CommonOptions& common) : request_(request), common_(common) {}

  ServerRun run(bool compiled) const {
    std::vector<std::string> arguments = {"--model=" + request_.client.style.model,
                                          "--device=" + device_name(common_.device),
                                          fmt::format("--threads={}", common_.threads)};
    arguments.insert(arguments.end(), request_.serve_flags.begin(), request_.serve_flags.end());
    if (compiled) {
      arguments.emplace_back("--compiled");
      arguments.insert(arguments.end(), request_.search_flags.begin(), request_.search_flags.end());
    }
    OwnServer server(arguments, compiled ? "The server with plans" : "The server without plans");
    ClientOptions client = request_.client;
    client.server = parse_base_url(server.url());
    client.style.model = ask_model(client.server, client.api_key);
    ServerRun run;
    for (int64_t i = -1; i < request_.repeats; ++i) {
      const uint64_t seed = common_.seed + 1 + static_cast<uint64_t>(i);
      std::vector<BenchRequest> requests = request_.requests(seed);
      client.max_concurrency = request_.load.max_concurrency;
      ServedLoad load = send_load(client, requests, request_.arrivals(requests.size(), seed));
      ServingMetrics metrics = serving_metrics(load.requests, load.duration_s, request_.goodput);
      if (metrics.failed > 0)
        throw Error("{} of {} requests failed: {}", metrics.failed, requests.size(), metrics.failures.begin()->first);
      if (i < 0) continue;  // warm-up
      for (size_t t = 0; t < kTimes.size(); ++t) run.times[t].push_back(kTimes[t].of(metrics));
      if (i == 0) run.first = load_json(load, metrics);
    }
    if (auto counts = ask_server_counts(client.server, client.api_key)) run.counts = *counts;
    server.stop();
    return run;
  }

 private:
  const ServeSidesRequest& request_;
  const CommonOptions& common_;
};

double median_of(const std::vector<ServerRun>& runs, size_t time) {
  std::vector<double> all;
  for (const ServerRun& run : runs) all.insert(all.end(), run.times[time].begin(), run.times[time].end());
  return median(all);
}

std::vector<ProcessTimes> times_of(const std::vector<ServerRun>& runs, size_t time) {
  std::vector<ProcessTimes> list;
  for (const ServerRun& run : runs) list.push_back(run.times[time]);
  return list;
}

Table compared_table(const Json& json) {
  Table table({{"what", "what"},
               {"eager", "eager"},
               {"compiled", "compiled"},
               {"speedup", "speed-up"},
               {"speedup_low", "low"},
               {"speedup_high", "high"},
               {"verdict", "verdict"},
               {"control_error", "A/A"}});
  for (const Json& row : json.at("comparisons")) {
    auto number = [&](const char* key) { return row.at(key).get<double>(); };
    table.add_row({Cell(row.at("what"), row.at("title").get<std::string>()), Cell(number("eager"), 3),
                   Cell(number("compiled"), 3), Cell(row.at("speedup"), fmt::format("{:.3f}x", number("speedup"))),
                   Cell(number("speedup_low"), 3), Cell(number("speedup_high"), 3),
                   row.at("verdict").get<std::string>(),
                   Cell(row.at("control_error"), fmt::format("{:.1f} %", 100 * number("control_error")))});
  }
  return table;
}

}  // namespace

Json compare_servers(const ServeSidesRequest& request, const CommonOptions& common, Progress& progress) {
  const ServerSide side(request, common);
  std::vector<ServerRun> eager, compiled;
  const int64_t servers = 2 * request.rounds + 1;
  progress.show("a first server, which searches for kernels");
  side.run(true);
  for (int64_t i = 0; i < servers; ++i) {
    const bool plans = i % 2 == 1;
    progress.show(fmt::format("server {} of {}: {}", i + 1, servers, plans ? "plans" : "the tree"));
    (plans ? compiled : eager).push_back(side.run(plans));
  }
  const ServerCounts& counts = compiled.front().counts;
  Json json = {{"version", FK_VERSION},
               {"type", "serve"},
               {"mode", "compare"},
               {"sides", "compiled"},
               {"model", request.client.style.model},
               {"device", device_name(common.device)},
               {"threads", common.threads},
               {"servers", servers},
               {"repeats", request.repeats},
               {"engine", {{"steps", counts.steps}, {"compiled_steps", counts.compiled_steps}}},
               {"comparisons", Json::array()}};
  for (size_t t = 0; t < kTimes.size(); ++t) {
    const std::vector<ProcessTimes> base = times_of(eager, t), other = times_of(compiled, t);
    Json row = {{"what", kTimes[t].key},
                {"title", kTimes[t].title},
                {"eager", median_of(eager, t)},
                {"compiled", median_of(compiled, t)},
                {"samples_ms", {{"eager", base}, {"compiled", other}}}};
    row.update(paired_json(compare_alternating(base, other, common.seed)));
    json["comparisons"].push_back(std::move(row));
  }
  // The dashboard draws loads: the first one of each side.
  json["loads"] = Json::array();
  for (const auto& [name, runs] : {std::pair{"eager", &eager}, std::pair{"compiled", &compiled}}) {
    Json one = {{"side", name},
                {"request_rate", request.load.request_rate == 0 ? Json("inf") : Json(request.load.request_rate)},
                {"max_concurrency", request.load.max_concurrency == 0 ? Json() : Json(request.load.max_concurrency)}};
    one.update(runs->front().first);
    json["loads"].push_back(std::move(one));
  }
  return json;
}

void print_compared_servers(const Json& json, const CommonOptions& common) {
  if (common.json) return print_out(dump_json(json) + "\n");
  Table table = compared_table(json);
  if (common.csv) return table.print(common);
  print_text(fmt::format("{} on {}: servers by plans and by the tree, {} in turn, {} loads on each\n\n",
                         json.at("model").get<std::string>(), json.at("device").get<std::string>(),
                         json.at("servers").get<int64_t>(), json.at("repeats").get<int64_t>()));
  print_out(table.to_text());
  EngineStats stats;
  stats.steps = json.at("engine").at("steps").get<int64_t>();
  stats.compiled_steps = json.at("engine").at("compiled_steps").get<int64_t>();
  print_out(
      fmt::format("\nspeed-up with its 99 % interval, above 1 where plans are faster; A/A: eager against itself\n"
                  "compiled: {}\n",
                  compiled_share_text(stats)));
  for (const Json& row : json.at("comparisons"))
    if (const std::string why = row.at("invalid").get<std::string>(); !why.empty())
      print_text(fmt::format("{}: {}\n", row.at("title").get<std::string>(), why));
}

void record_compared_servers(Recorder& recorder, const Json& json) {
  std::vector<MetricPoint> points;
  std::map<std::string, std::string> tags;
  auto add = [&](const std::string& name, const Json& value) {
    points.push_back({name, value.get<double>(), 0, now_us()});
  };
  for (const Json& row : json.at("comparisons")) {
    const std::string what = row.at("what").get<std::string>();
    for (const char* key : {"speedup", "speedup_low", "speedup_high", "control_error"})
      add(fmt::format("compiled_{}_{}", what, key), row.at(key));
    tags[fmt::format("compiled_{}_verdict", what)] = row.at("verdict").get<std::string>();
  }
  recorder.add(metrics_event(points));
  recorder.add(pairs_event("tags", tags));
  recorder.artifact("results/e2e.json", dump_json(json) + "\n");
}

}  // namespace fk
