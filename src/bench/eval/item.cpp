#include "bench/eval/item.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/eval/side.h"
#include "core/error.h"
#include "core/rng.h"
#include "measure/alternating.h"

namespace fk {
namespace {

constexpr int64_t kScoredRequests = 8;  // of each workload and side

// Difference of two vectors, relative to the length of the first.
float vector_error(const std::vector<float>& reference, const std::vector<float>& other) {
  if (reference.size() != other.size()) return std::nanf("");
  double squares = 0, length = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    double difference = static_cast<double>(other[i]) - reference[i];
    squares += difference * difference;
    length += static_cast<double>(reference[i]) * reference[i];
  }
  return static_cast<float>(std::sqrt(squares / std::max(length, 1e-30)));
}

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double product = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    product += static_cast<double>(a[i]) * b[i];
    aa += static_cast<double>(a[i]) * a[i];
    bb += static_cast<double>(b[i]) * b[i];
  }
  return product / std::sqrt(std::max(aa * bb, 1e-30));
}

std::vector<ProcessTimes> times_of(const std::vector<Json>& processes, const std::string& workload) {
  std::vector<ProcessTimes> times;
  for (const Json& process : processes)
    times.push_back(process.at("workloads").at(workload).at("times_ms").get<ProcessTimes>());
  return times;
}

double median_ms(const std::vector<ProcessTimes>& processes) {
  ProcessTimes all;
  for (const ProcessTimes& times : processes) all.insert(all.end(), times.begin(), times.end());
  return median(all);
}

// All comparisons of one workload's outputs.
struct Compared {
  PositionErrors noise, rounding;  // of the baseline: between batch sizes, between two ways of rounding
  std::vector<std::pair<std::string, PositionErrors>> checks;  // what was compared, and how it differs
  double least_cosine = 1;
};

Compared compared_logits(const PairResults& results, const std::string& workload) {
  Compared c;
  c.noise = position_errors_of(results.reference.at("workloads").at(workload).at("noise"));
  c.rounding = position_errors_of(results.reference.at("workloads").at(workload).at("rounding"));
  for (const Json& process : results.with)
    for (const Json& check : process.at("checks"))
      c.checks.emplace_back(fmt::format("forced decode {} the timing", check.at("when").get<std::string>()),
                            position_errors_of(check.at("workloads").at(workload)));
  const Json& scored = results.scored.at("workloads").at(workload);
  c.checks.emplace_back("tokens drawn while it was timed", position_errors_of(scored.at("candidate")));
  return c;
}

PositionErrors vector_errors(const Json& reference, const Json& other, double& least_cosine) {
  PositionErrors errors;
  for (size_t i = 0; i < std::max(reference.size(), other.size()); ++i) {
    auto a = i < reference.size() ? reference[i].get<std::vector<float>>() : std::vector<float>();
    auto b = i < other.size() ? other[i].get<std::vector<float>>() : std::vector<float>();
    errors.errors.push_back(vector_error(a, b));
    least_cosine = std::min(least_cosine, cosine(a, b));
  }
  return errors;
}

Compared compared_vectors(const PairResults& results, const std::string& workload) {
  Compared c;
  const Json& reference = results.reference.at("workloads").at(workload);
  for (const Json& alone : reference.at("noise_vectors"))
    c.noise.errors.push_back(
        vector_error(reference.at("vectors").at(alone.at("place").get<size_t>()).get<std::vector<float>>(),
                     alone.at("vector").get<std::vector<float>>()));
  double any_cosine = 1;
  c.rounding = vector_errors(reference.at("vectors"), reference.at("rounding_vectors"), any_cosine);
  for (size_t round = 0; round < results.with.size(); ++round) {
    const Json& process = results.with[round];
    for (const Json& check : process.at("checks"))
      c.checks.emplace_back(
          fmt::format("vectors {} the timing", check.at("when").get<std::string>()),
          vector_errors(reference.at("vectors"), check.at("workloads").at(workload).at("vectors"), c.least_cosine));
    // The same inputs were timed without candidates.
    const Json& with = process.at("workloads").at(workload).at("vectors");
    const Json& without = results.without[round].at("workloads").at(workload).at("vectors");
    for (size_t pass = 0; pass < std::min(with.size(), without.size()); ++pass)
      c.checks.emplace_back("vectors of timed inputs", vector_errors(without[pass], with[pass], c.least_cosine));
  }
  return c;
}

Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(); }

// Adds the verdict on its outputs: the worst of all comparisons.
void add_alignment(Json& row, const Compared& compared, DType dtype, bool encoder) {
  AlignmentLimits limits = limits_of_noise(compared.noise, compared.rounding, dtype_epsilon(dtype));
  PositionErrors all;
  std::string reason;
  for (const auto& [what, errors] : compared.checks) {
    Alignment one = judge_alignment(errors, limits);
    if (!one.aligned() && reason.empty()) reason = fmt::format("{}: {}", what, one.reason);
    all.add(errors);
  }
  if (compared.checks.empty()) reason = "nothing was compared";
  Alignment a = judge_alignment(all, limits), own = judge_alignment(compared.noise, limits),
            rounded = judge_alignment(compared.rounding, limits);
  row["aligned"] = reason.empty();
  row["reason"] = reason;
  row["positions"] = a.positions;
  row["outliers"] = a.outliers;
  row["limit"] = limits.position;
  row["median_error"] = finite(a.median_error);
  row["worst_error"] = finite(a.worst_error);
  row["baseline_median_error"] = finite(own.median_error);
  row["baseline_worst_error"] = finite(own.worst_error);
  row["rounding_median_error"] = finite(rounded.median_error);
  row["rounding_worst_error"] = finite(rounded.worst_error);
  if (encoder) {
    row["least_cosine"] = finite(compared.least_cosine);
  } else {
    row["agreement"] = a.agreement;
    row["baseline_agreement"] = own.agreement;
    row["rounding_agreement"] = rounded.agreement;
    row["worst_margin"] = finite(a.worst_margin);
  }
}

int64_t candidate_calls(const Json& process) {
  int64_t calls = 0;
  if (auto list = process.find("dispatches"); list != process.end())
    for (const Json& d : *list)
      if (d.at("implementation") == "candidate") calls += d.at("calls").get<int64_t>();
  return calls;
}

// A candidate's process wrote the times: a number that is none must not reach the statistics.
void require_times(const std::vector<ProcessTimes>& processes, size_t count, const std::string& workload) {
  for (const ProcessTimes& times : processes) {
    bool equal = times.size() == count && count > 0;
    if (!equal || !std::all_of(times.begin(), times.end(), [](double t) { return std::isfinite(t) && t > 0; }))
      throw Error("The processes of {} did not measure the same number of times.", workload);
  }
}

}  // namespace

Json item_of(const PairTask& task, Task model_task, DType dtype, const PairResults& results) {
  bool encoder = is_stateless(model_task);         // its vectors are compared, or logits of a trajectory
  std::vector<double> logs[2], lows[2], highs[2];  // latency, throughput
  int64_t aligned = 0;
  double agreement = 0;
  Json rows = Json::array();
  for (const EvalWorkload& w : eval_workloads(model_task, parse_scale(task.scale))) {
    std::vector<ProcessTimes> without = times_of(results.without, w.name), with = times_of(results.with, w.name);
    require_times(without, without.front().size(), w.name);
    require_times(with, without.front().size(), w.name);
    PairedResult paired = compare_alternating(without, with, task.seed);
    auto requests = static_cast<double>(w.batch > 0 ? w.batch : task.num_prompts);
    // As vLLM counts: tokens of prompts and outputs.
    double amount = w.steps > 0 ? static_cast<double>(w.steps)
                    : encoder   ? requests
                                : requests * static_cast<double>(w.length());
    auto shown = [&](double ms) { return w.throughput ? amount * 1e3 / ms : ms; };
    const char* unit = !w.throughput ? "ms" : w.steps > 0 ? "steps/s" : encoder ? "inputs/s" : "tokens/s";
    Json row = {{"workload", w.name},
                {"kind", w.throughput ? "throughput" : "latency"},
                {"input_tokens", w.input_tokens},
                {"output_tokens", w.output_tokens},
                {"requests", requests},
                {"unit", unit},
                {"baseline", shown(median_ms(without))},
                {"candidate", shown(median_ms(with))},
                {"speedup", paired.speedup()},
                {"low", paired.speedup_interval().low},
                {"high", paired.speedup_interval().high},
                {"verdict", paired.invalid.empty() ? std::string(speed_verdict_name(paired.verdict)) : "INVALID"},
                {"control_error", std::expm1(paired.control_error)},
                {"timing_note", paired.invalid}};
    add_alignment(row, encoder ? compared_vectors(results, w.name) : compared_logits(results, w.name), dtype, encoder);
    if (row["aligned"].get<bool>()) ++aligned;
    agreement += encoder ? row["least_cosine"].is_null() ? 0 : row["least_cosine"].get<double>()
                         : row["agreement"].get<double>();
    logs[w.throughput].push_back(paired.speedup());
    lows[w.throughput].push_back(paired.speedup_interval().low);
    highs[w.throughput].push_back(paired.speedup_interval().high);
    rows.push_back(std::move(row));
  }
  auto blend = [](const std::vector<double>(&of)[2]) {
    return std::sqrt(*geometric_mean(of[0]) * *geometric_mean(of[1]));
  };
  auto count = static_cast<int64_t>(rows.size());
  Json item = {{"name", task.name},
               {"model", task.model},
               {"tp", task.tp},
               {"category", task.category},
               {"scale", task.scale},
               {"status", "ok"},
               {"error", ""},
               {"stage", ""},
               {"aligned", aligned},
               {"checks", count},
               {"valid", aligned == count},
               {"agreement", agreement / static_cast<double>(count)},
               {"throughput_speedup", *geometric_mean(logs[1])},
               {"latency_speedup", *geometric_mean(logs[0])},
               {"blended_speedup", blend(logs)},
               {"blended_low", blend(lows)},
               {"blended_high", blend(highs)},
               {"candidate_calls", candidate_calls(results.with.front())},
               {"workloads", rows}};
  for (const char* key : {"dispatches", "ranks", "candidates"})
    if (results.with.front().contains(key)) item[key] = results.with.front()[key];
  return item;
}

Json failed_item(const PairTask& task, const std::string& stage, const std::string& error) {
  return {{"name", task.name},   {"model", task.model}, {"tp", task.tp},  {"category", task.category},
          {"scale", task.scale}, {"status", "failed"},  {"error", error}, {"stage", stage},
          {"aligned", 0},        {"checks", 0},         {"valid", false}, {"workloads", Json::array()}};
}

EvalItem score_item(const Json& item) {
  EvalItem e;
  e.category = item.at("category").get<std::string>();
  e.aligned = item.at("aligned").get<int64_t>();
  e.checks = item.at("checks").get<int64_t>();
  e.failed = item.at("status") != "ok";
  for (const Json& row : item.at("workloads"))
    (row.at("kind") == "throughput" ? e.throughput_speedups : e.latency_speedups)
        .push_back(row.at("speedup").get<double>());
  return e;
}

Json choose_scored(const std::vector<EvalWorkload>& workloads, const PairResults& results, uint64_t seed) {
  Json chosen = Json::object();
  uint64_t at = 0;
  Stream random(seed, "scored requests");
  auto below = [&](size_t n) { return static_cast<size_t>(random.below(at++, n)); };
  for (const EvalWorkload& w : workloads)
    for (bool candidate : {true, false}) {
      const std::vector<Json>& processes = candidate ? results.with : results.without;
      Json& list = chosen[w.name][candidate ? "candidate" : "baseline"] = Json::array();
      for (int64_t i = 0; i < kScoredRequests; ++i) {
        size_t round = below(processes.size());
        const Json& passes = processes[round].at("workloads").at(w.name).at("drawn");
        if (passes.empty()) throw Error("A process that was timed in {} has drawn nothing.", w.name);
        size_t pass = below(passes.size());
        if (passes[pass].empty()) throw Error("A process that was timed in {} has drawn nothing.", w.name);
        size_t request = below(passes[pass].size());
        list.push_back({{"round", processes[round].at("round")},
                        {"pass", pass},
                        {"request", request},
                        {"tokens", passes[pass][request]}});
      }
    }
  return chosen;
}

}  // namespace fk
