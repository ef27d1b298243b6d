#include "cli/ttft_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/output.h"
#include "cli/own_process.h"
#include "cli/table.h"
#include "core/error.h"
#include "measure/statistics.h"

namespace fk {
namespace {

Json time_one_side(const CompareRequest& request, const CompareSide& side, int64_t iters) {
  std::vector<std::string> arguments = request.arguments;
  arguments.push_back(fmt::format("--iters={}", iters));
  arguments.insert(arguments.end(), side.arguments.begin(), side.arguments.end());
  return json_of_own_process(arguments, fmt::format("The run {}", side.words));
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
  Json printed = time_one_side(request, request.base, 1);
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
               {c.base.name + "_ms", c.base.name + " ms"},
               {c.other.name + "_ms", c.other.name + " ms"},
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

// Samples of both sides and what the interval is made from.
Json details_json(const CompareResult& c) {
  Json json = Json::object();
  for (const Compared& what : compared_in(c)) {
    const PairedResult& r = c.comparison.*what.result;
    Json other = Json::array(), base = Json::array();
    for (const TtftTimes& p : c.rounds.with) other.push_back(p.*what.times);
    for (const TtftTimes& p : c.rounds.without) base.push_back(p.*what.times);
    json["samples"][what.key] = {{c.other.name + "_ms", other}, {c.base.name + "_ms", base}};
    json["comparison"][what.key] = {{"delta", r.delta}, {"control_error", r.control_error}, {"invalid", r.invalid}};
  }
  json["rounds"] = c.rounds.with.size();
  json["candidate_calls"] = c.candidate_calls();
  for (const char* key : {"candidates", "cxxflags", "dispatches", "plan"})
    if (c.other_printed.contains(key)) json[key] = c.other_printed[key];
  return json;
}

Json comparison_json(const CompareResult& c) {
  Json json = {{"version", FK_VERSION}, {"mode", "compare"}, {"results", comparison_table(c).to_json()}};
  json.update(details_json(c));
  if (c.other_printed.contains("machine")) json["machine"] = c.other_printed["machine"];
  json["model"] = c.other_printed.at("results").at(0);
  return json;
}

Table paths_table(const std::vector<CompareResult>& results) {
  Table table({{"what", "what"},
               {"base", "base"},
               {"base_ms", "ms"},
               {"path", "path"},
               {"path_ms", "ms"},
               {"speedup", "speed-up"},
               {"speedup_low", "low"},
               {"speedup_high", "high"},
               {"verdict", "verdict"},
               {"control_error", "A/A"},
               {"outputs_equal", "same outputs"}});
  for (const CompareResult& c : results)
    for (const Compared& what : compared_in(c)) {
      const PairedResult& r = c.comparison.*what.result;
      const Interval interval = r.speedup_interval();
      table.add_row(
          {Cell(Json(what.key), what.title), c.base.name, Cell(median(joined(c.rounds.without, what.times)), 3),
           c.other.name, Cell(median(joined(c.rounds.with, what.times)), 3),
           Cell(Json(r.speedup()), fmt::format("{:.3f}x", r.speedup())), Cell(interval.low, 3), Cell(interval.high, 3),
           verdict_text(r),
           Cell(Json(std::expm1(r.control_error)), fmt::format("{:.1f} %", 100 * std::expm1(r.control_error))),
           c.outputs ? Cell(Json(c.outputs->equal()), c.outputs->equal() ? "yes" : "NO") : Cell()});
    }
  return table;
}

Json paths_json(const std::vector<CompareResult>& results) {
  Json json = {{"version", FK_VERSION}, {"mode", "paths"}, {"results", paths_table(results).to_json()}};
  json["comparisons"] = Json::array();
  for (const CompareResult& c : results) {
    Json one = {{"base", c.base.name}, {"path", c.other.name}};
    one.update(details_json(c));
    if (c.outputs) one["outputs"] = to_json(*c.outputs, c.base.name, c.other.name);
    json["comparisons"].push_back(std::move(one));
  }
  const CompareResult& first = results.front();
  if (first.base_printed.contains("machine")) json["machine"] = first.base_printed["machine"];
  json["model"] = first.base_printed.at("results").at(0);
  return json;
}

void add_metrics(const CompareResult& c, const std::string& prefix, std::vector<MetricPoint>& points,
                 std::map<std::string, std::string>& tags) {
  for (const Compared& what : compared_in(c)) {
    const PairedResult& r = c.comparison.*what.result;
    auto add = [&](const char* name, double value) {
      points.push_back({fmt::format("{}{}_{}", prefix, what.key, name), value, 0, now_us()});
    };
    add("speedup", r.speedup());
    add("speedup_low", r.speedup_interval().low);
    add("speedup_high", r.speedup_interval().high);
    add("control_error", std::expm1(r.control_error));
    tags[fmt::format("{}{}_verdict", prefix, what.key)] = verdict_text(r);
  }
}

TtftRecord side_record(const CompareResult& c, bool with) {
  const Json& row = (with ? c.other_printed : c.base_printed).at("results").at(0);
  const std::vector<TtftTimes>& processes = with ? c.rounds.with : c.rounds.without;
  TtftRecord t;
  t.path = (with ? c.other : c.base).path;
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

Json to_json(const TtftOutputs& o) {
  // Whole numbers of 64 bits are texts: not every reader of JSON has them.
  return {{"prompts_hash", fmt::format("{:016x}", o.prompts_hash)},
          {"tokens", o.tokens},
          {"margins", o.margins},
          {"numbers", o.numbers},
          {"bits", fmt::format("{:016x}", o.bits)}};
}

Json to_json(const OutputComparison& c, const std::string& base, const std::string& other) {
  Json json = {{"equal", c.equal()},
               {"same_prompts", c.same_prompts},
               {"same_tokens", c.same_tokens},
               {"same_bits", c.same_bits},
               {"largest_difference", c.largest_difference},
               {"text", comparison_text(c, base, other)}};
  if (c.sequence >= 0)
    json["first_difference"] = {
        {"sequence", c.sequence}, {"step", c.step}, {"margin", c.margin}, {base, c.token}, {other, c.other_token}};
  return json;
}

TtftOutputs outputs_from_json(const Json& json) {
  auto hash = [&](const char* key) { return std::stoull(json.at(key).get<std::string>(), nullptr, 16); };
  return {.prompts_hash = hash("prompts_hash"),
          .tokens = json.at("tokens").get<std::vector<std::vector<int64_t>>>(),
          .margins = json.at("margins").get<std::vector<std::vector<double>>>(),
          .numbers = json.at("numbers").get<std::vector<double>>(),
          .bits = hash("bits")};
}

int64_t CompareResult::candidate_calls() const {
  int64_t calls = 0;
  if (auto list = other_printed.find("dispatches"); list != other_printed.end())
    for (const Json& d : *list)
      if (d.at("implementation") == "candidate") calls += d.at("calls").get<int64_t>();
  return calls;
}

CompareResult run_comparison(const CompareRequest& request, const CommonOptions& common) {
  Progress progress(common);
  CompareResult c;
  c.base = request.base;
  c.other = request.other;
  c.doubt = request.doubt;
  progress.show("a first process, to see how long an iteration takes");
  const int64_t iters = request.iters ? *request.iters : iters_in_a_second(request);
  int64_t processes = 2 * request.rounds + 1;
  for (int64_t i = 0; i < processes; ++i) {
    bool with = i % 2 == 1;
    const CompareSide& side = with ? c.other : c.base;
    progress.show(fmt::format("process {} of {}: {}", i + 1, processes, side.words));
    Json printed = time_one_side(request, side, iters);
    (with ? c.rounds.with : c.rounds.without).push_back(times_in(printed));
    Json& first = with ? c.other_printed : c.base_printed;
    if (first.is_null()) first = std::move(printed);
  }
  c.comparison = compare_rounds(c.rounds, common.seed);
  if (c.base_printed.contains("outputs") && c.other_printed.contains("outputs"))
    c.outputs = compare_outputs(outputs_from_json(c.base_printed.at("outputs")),
                                outputs_from_json(c.other_printed.at("outputs")));
  // Both sides ran the same kernels: a difference is noise, whatever its interval says.
  if (c.other.path == "candidate" && c.candidate_calls() == 0)
    for (const Compared& what : compared_in(c))
      if (PairedResult& r = c.comparison.*what.result; r.verdict != SpeedVerdict::kSame)
        r.verdict = SpeedVerdict::kUnresolved;
  return c;
}

void print_comparison(const CompareResult& c, const CommonOptions& common) {
  if (common.json) return print_out(dump_json(comparison_json(c)) + "\n");
  Table table = comparison_table(c);
  if (common.csv) return table.print(common);
  const Json& row = c.other_printed.at("results").at(0);
  print_out(fmt::format("{}, {} on {}: with candidates and without, in {} alternating processes of {} iterations\n",
                        row.at("model").get<std::string>(), row.at("dtype").get<std::string>(),
                        row.at("device").get<std::string>(), c.rounds.with.size() + c.rounds.without.size(),
                        c.rounds.with.front().prefill_ms.size()));
  std::string names;
  for (const Json& use : c.other_printed.at("candidates"))
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
  add_metrics(c, "", points, tags);
  for (bool with : {false, true}) recorder.add(ttft_event(side_record(c, with)));
  recorder.add(metrics_event(points));
  recorder.add(pairs_event("tags", tags));
  recorder.artifact("results/ttft_compare.json", dump_json(comparison_json(c)) + "\n");
}

void print_paths(const std::vector<CompareResult>& results, const CommonOptions& common) {
  if (common.json) return print_out(dump_json(paths_json(results)) + "\n");
  Table table = paths_table(results);
  if (common.csv) return table.print(common);
  const CompareResult& first = results.front();
  const Json& row = first.base_printed.at("results").at(0);
  print_out(fmt::format("{}, {} on {}: every path in a process of its own, in turn; {} iterations in each\n\n",
                        row.at("model").get<std::string>(), row.at("dtype").get<std::string>(),
                        row.at("device").get<std::string>(), first.rounds.with.front().prefill_ms.size()));
  print_out(table.to_text());
  print_out(fmt::format("\nspeed-up over {} with its 99 % interval, of {} processes; A/A: {} against itself\n",
                        first.base.name, first.rounds.with.size() + first.rounds.without.size(), first.base.name));
  for (const CompareResult& c : results) {
    if (c.outputs)
      print_out(fmt::format("outputs of {} and {}: {}\n", c.base.name, c.other.name,
                            comparison_text(*c.outputs, c.base.name, c.other.name)));
    if (c.other_printed.contains("plan"))
      print_out(fmt::format("{}: {}\n", c.other.name, c.other_printed.at("plan").at("text").get<std::string>()));
    for (const Compared& what : compared_in(c))
      if (const std::string& invalid = (c.comparison.*what.result).invalid; !invalid.empty())
        print_out(fmt::format("{}, {}: {}\n", c.other.name, what.title, invalid));
    if (!c.doubt.empty()) print_text(fmt::format("candidates: {}\n", c.doubt));
  }
}

void record_paths(Recorder& recorder, const std::vector<CompareResult>& results, const std::string& judged) {
  std::vector<MetricPoint> points;
  std::map<std::string, std::string> tags;
  if (!judged.empty()) tags["candidates_judged"] = judged;
  recorder.add(ttft_event(side_record(results.front(), false)));
  for (const CompareResult& c : results) {
    add_metrics(c, c.other.name + "_", points, tags);
    if (c.outputs) tags[c.other.name + "_outputs"] = comparison_text(*c.outputs, c.base.name, c.other.name);
    recorder.add(ttft_event(side_record(c, true)));
  }
  recorder.add(metrics_event(points));
  recorder.add(pairs_event("tags", tags));
  recorder.artifact("results/ttft_paths.json", dump_json(paths_json(results)) + "\n");
}

}  // namespace fk
