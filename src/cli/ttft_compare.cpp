#include "cli/ttft_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/output.h"
#include "cli/own_process.h"
#include "cli/table.h"
#include "core/error.h"
#include "measure/statistics.h"

namespace fk {
namespace {

Json time_one_side(const CompareRequest& request, bool with_candidates, int64_t iters) {
  std::vector<std::string> arguments = request.arguments;
  arguments.push_back(fmt::format("--iters={}", iters));
  const std::vector<std::string>& more = request.candidate_arguments;
  if (with_candidates)
    arguments.insert(arguments.end(), more.begin(), more.end());
  else
    arguments.push_back("--no-candidate-kernels");
  return json_of_own_process(arguments, fmt::format("The run {} candidates", with_candidates ? "with" : "without"));
}

TtftTimes times_in(const Json& printed) {
  const Json& samples = printed.at("samples");
  TtftTimes times{samples.at("prefill").at("samples_ms").get<std::vector<double>>(), {}};
  if (samples.contains("decode")) times.decode_ms = samples.at("decode").at("samples_ms").get<std::vector<double>>();
  return times;
}

std::vector<double> joined(const std::vector<TtftTimes>& processes, std::vector<double> TtftTimes::*times) {
  std::vector<double> all;
  for (const TtftTimes& p : processes) all.insert(all.end(), (p.*times).begin(), (p.*times).end());
  return all;
}

std::string verdict_text(const PairedResult& r) {
  return r.invalid.empty() ? std::string(speed_verdict_name(r.verdict)) : "INVALID";
}

// Short iterations are noisy when other programs run; the median of many is stable.
int64_t iters_in_a_second(const CompareRequest& request) {
  constexpr int64_t kLeast = 3, kMost = 50;
  Json printed = time_one_side(request, false, 1);
  TtftTimes once = times_in(printed);
  double ms = once.prefill_ms.at(0);
  if (!once.decode_ms.empty())
    ms += printed.at("results").at(0).at("decode_tokens").get<double>() * once.decode_ms.at(0);
  return ms > 0 ? std::clamp(static_cast<int64_t>(1e3 / ms), kLeast, kMost) : kLeast;
}

struct Compared {
  const char* key;
  const char* title;
  std::vector<double> TtftTimes::*times;
  PairedResult TtftComparison::*result;
};
// What the model has: an encoder has no time per token.
std::vector<Compared> compared_in(const CompareResult& c) {
  if (c.rounds.with.front().decode_ms.empty())
    return {{"ttft", "one pass", &TtftTimes::prefill_ms, &TtftComparison::prefill}};
  return {{"ttft", "TTFT, one prefill", &TtftTimes::prefill_ms, &TtftComparison::prefill},
          {"tpot", "TPOT", &TtftTimes::decode_ms, &TtftComparison::decode}};
}

Table comparison_table(const CompareResult& c) {
  Table table({{"what", "what"},
               {"without_ms", "without ms"},
               {"with_ms", "with ms"},
               {"speedup", "speed-up"},
               {"speedup_low", "low"},
               {"speedup_high", "high"},
               {"verdict", "verdict"},
               {"control_error", "A/A"}});
  for (const Compared& what : compared_in(c)) {
    const PairedResult& r = c.comparison.*what.result;
    Interval interval = r.speedup_interval();
    table.add_row(
        {Cell(Json(what.key), what.title), Cell(median(joined(c.rounds.without, what.times)), 3),
         Cell(median(joined(c.rounds.with, what.times)), 3),
         Cell(Json(r.speedup()), fmt::format("{:.3f}x", r.speedup())), Cell(interval.low, 3), Cell(interval.high, 3),
         verdict_text(r),
         Cell(Json(std::expm1(r.control_error)), fmt::format("{:.1f} %", 100 * std::expm1(r.control_error)))});
  }
  return table;
}

Json comparison_json(const CompareResult& c) {
  Json json = {{"version", FK_VERSION}, {"mode", "compare"}, {"results", comparison_table(c).to_json()}};
  for (const Compared& what : compared_in(c)) {
    const PairedResult& r = c.comparison.*what.result;
    Json with = Json::array(), without = Json::array();
    for (const TtftTimes& p : c.rounds.with) with.push_back(p.*what.times);
    for (const TtftTimes& p : c.rounds.without) without.push_back(p.*what.times);
    json["samples"][what.key] = {{"with_ms", with}, {"without_ms", without}};
    json["comparison"][what.key] = {{"delta", r.delta}, {"control_error", r.control_error}, {"invalid", r.invalid}};
  }
  json["rounds"] = c.rounds.with.size();
  json["candidate_calls"] = c.candidate_calls();
  for (const char* key : {"machine", "candidates", "cxxflags", "dispatches"})
    if (c.with.contains(key)) json[key] = c.with[key];
  json["model"] = c.with.at("results").at(0);
  return json;
}

TtftRecord side_record(const CompareResult& c, bool with) {
  const Json& row = (with ? c.with : c.without).at("results").at(0);
  const std::vector<TtftTimes>& processes = with ? c.rounds.with : c.rounds.without;
  TtftRecord t;
  t.path = with ? "candidate" : "eager";
  t.model = t.model_key = row.at("model").get<std::string>();
  t.device = row.at("device").get<std::string>();
  t.dtype = row.at("dtype").get<std::string>();
  t.threads = row.at("threads").get<int64_t>();
  t.prompt_tokens = row.at("prompt_tokens").get<int64_t>();
  if (!row.at("decode_tokens").is_null()) t.decode_tokens = row.at("decode_tokens").get<int64_t>();
  std::vector<double> prefill = joined(processes, &TtftTimes::prefill_ms),
                      decode = joined(processes, &TtftTimes::decode_ms);
  t.iters = static_cast<int64_t>(prefill.size());
  t.ttft_ms = median(prefill);
  double batch = row.at("batch_size").get<double>();
  t.throughput_tps = batch * static_cast<double>(t.prompt_tokens) * 1e3 / *t.ttft_ms;
  if (!decode.empty()) {
    t.tpot_ms = median(decode);
    t.throughput_tps = batch * 1e3 / *t.tpot_ms;
  }
  t.load_ms = row.at("load_ms").get<double>();
  t.samples = {{"prefill", prefill}};
  if (!decode.empty()) t.samples["decode"] = decode;
  if (with) t.note = c.doubt;
  return t;
}

}  // namespace

int64_t CompareResult::candidate_calls() const {
  int64_t calls = 0;
  if (auto list = with.find("dispatches"); list != with.end())
    for (const Json& d : *list)
      if (d.at("implementation") == "candidate") calls += d.at("calls").get<int64_t>();
  return calls;
}

CompareResult run_comparison(const CompareRequest& request, const CommonOptions& common) {
  Progress progress(common);
  CompareResult c;
  c.doubt = request.doubt;
  progress.show("a first process, to see how long an iteration takes");
  const int64_t iters = request.iters ? *request.iters : iters_in_a_second(request);
  int64_t processes = 2 * request.rounds + 1;
  for (int64_t i = 0; i < processes; ++i) {
    bool with = i % 2 == 1;
    progress.show(fmt::format("process {} of {}: {} candidates", i + 1, processes, with ? "with" : "without"));
    Json printed = time_one_side(request, with, iters);
    (with ? c.rounds.with : c.rounds.without).push_back(times_in(printed));
    Json& first = with ? c.with : c.without;
    if (first.is_null()) first = std::move(printed);
  }
  c.comparison = compare_rounds(c.rounds, common.seed);
  // Both sides ran the same kernels: a difference is noise, whatever its interval says.
  if (c.candidate_calls() == 0)
    for (const Compared& what : compared_in(c))
      if (PairedResult& r = c.comparison.*what.result; r.verdict != SpeedVerdict::kSame)
        r.verdict = SpeedVerdict::kUnresolved;
  return c;
}

void print_comparison(const CompareResult& c, const CommonOptions& common) {
  if (common.json) return print_out(dump_json(comparison_json(c)) + "\n");
  Table table = comparison_table(c);
  if (common.csv) return table.print(common);
  const Json& row = c.with.at("results").at(0);
  print_out(fmt::format("{}, {} on {}: with candidates and without, in {} alternating processes of {} iterations\n",
                        row.at("model").get<std::string>(), row.at("dtype").get<std::string>(),
                        row.at("device").get<std::string>(), c.rounds.with.size() + c.rounds.without.size(),
                        c.rounds.with.front().prefill_ms.size()));
  std::string names;
  for (const Json& use : c.with.at("candidates"))
    names += fmt::format("{}{} in {} places", names.empty() ? "" : ", ", use.at("operator").get<std::string>(),
                         use.at("active_places").get<int64_t>());
  print_out(fmt::format("candidates: {}{}\n\n", names, c.doubt.empty() ? "" : fmt::format(" ({})", c.doubt)));
  print_out(table.to_text());
  print_out(
      "\nspeed-up with its 99 % interval, above 1 where candidates make the model faster; A/A: the model without "
      "candidates\nagainst itself\n");
  for (const Compared& what : compared_in(c))
    if (const std::string& invalid = (c.comparison.*what.result).invalid; !invalid.empty())
      print_out(fmt::format("{}: {}\n", what.title, invalid));
  if (c.candidate_calls() == 0) print_out("No candidate ran in this model, so both sides ran the same kernels.\n");
}

void record_comparison(Recorder& recorder, const CompareResult& c, const std::string& judged) {
  std::vector<MetricPoint> points;
  std::map<std::string, std::string> tags = {{"candidates_judged", judged}};
  for (const Compared& what : compared_in(c)) {
    const PairedResult& r = c.comparison.*what.result;
    auto add = [&](const char* name, double value) {
      points.push_back({fmt::format("{}_{}", what.key, name), value, 0, now_us()});
    };
    add("speedup", r.speedup());
    add("speedup_low", r.speedup_interval().low);
    add("speedup_high", r.speedup_interval().high);
    add("control_error", std::expm1(r.control_error));
    tags[fmt::format("{}_verdict", what.key)] = verdict_text(r);
  }
  for (bool with : {false, true}) recorder.add(ttft_event(side_record(c, with)));
  recorder.add(metrics_event(points));
  recorder.add(pairs_event("tags", tags));
  recorder.artifact("results/ttft_compare.json", dump_json(comparison_json(c)) + "\n");
}

}  // namespace fk
