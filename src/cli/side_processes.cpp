#include "cli/side_processes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "candidate/swap.h"
#include "cli/output.h"
#include "cli/own_process.h"
#include "ops/registry.h"

namespace fk {
namespace {

enum class WhichSide { kBaseline, kCandidate, kUnfused };

const char* side_name(WhichSide side, bool compiled) {
  if (compiled) return side == WhichSide::kBaseline ? "the tree" : "plans";
  return side == WhichSide::kBaseline    ? "the baseline"
         : side == WhichSide::kCandidate ? "candidates"
                                         : "the unfused baseline";
}

class SideRunner {
 public:
  SideRunner(const SidesRequest& request, Progress& progress) : request_(request), progress_(progress) {}

  Json run(WhichSide side, int64_t repeats, bool attribute) {
    std::vector<std::string> arguments = request_.arguments;
    arguments.push_back(fmt::format("--repeats={}", repeats));
    if (attribute) arguments.push_back("--attribute");
    const std::vector<std::string>& more =
        side == WhichSide::kCandidate ? request_.candidate_arguments : request_.baseline_arguments;
    arguments.insert(arguments.end(), more.begin(), more.end());
    if (side == WhichSide::kUnfused)
      arguments.push_back(fmt::format("--leave-unfused={}", fmt::join(request_.operators, ",")));
    const char* name = side_name(side, request_.compiled);
    progress_.show(fmt::format("process {}: {}", ++processes_, name));
    return json_of_own_process(arguments, fmt::format("The run of {}", name));
  }

 private:
  const SidesRequest& request_;
  Progress& progress_;
  int64_t processes_ = 0;
};

ProcessTimes times_of(const Json& printed) { return printed.at("samples_ms").get<ProcessTimes>(); }

// Short loads are noisy when other programs run; the median of several is stable.
int64_t repeats_in_a_second(double load_ms) {
  constexpr int64_t kMost = 20;
  return load_ms > 0 ? std::clamp(static_cast<int64_t>(1e3 / load_ms), int64_t{1}, kMost) : 1;
}

int64_t calls_of_candidates(const Json& printed) {
  int64_t calls = 0;
  if (auto list = printed.find("dispatches"); list != printed.end())
    for (const Json& d : *list)
      if (d.at("implementation") == kCandidateName) calls += d.at("calls").get<int64_t>();
  return calls;
}

bool is_fused(const std::string& op, const std::string& implementation) {
  const OperatorInfo* info = Registry::instance().find(op);
  if (info == nullptr) return false;
  return std::any_of(info->implementations.begin(), info->implementations.end(),
                     [&](const ImplementationInfo& i) { return i.fused && i.name == implementation; });
}

void set_same_where_nothing_ran(PairedResult& result, int64_t calls) {
  // Both sides ran the same kernels: a difference is noise, whatever its interval says.
  if (calls == 0 && result.verdict != SpeedVerdict::kSame) result.verdict = SpeedVerdict::kUnresolved;
}

}  // namespace

std::set<std::string> displaced_fusions(const Json& baseline, const Json& candidate) {
  std::set<std::string> displaced;
  for (const Json& d : baseline)
    if (is_fused(d.at("operator").get<std::string>(), d.at("implementation").get<std::string>()))
      displaced.insert(
          fmt::format("{}: {}", d.at("operator").get<std::string>(), d.at("implementation").get<std::string>()));
  for (const Json& d : candidate)
    displaced.erase(
        fmt::format("{}: {}", d.at("operator").get<std::string>(), d.at("implementation").get<std::string>()));
  return displaced;
}

Sides run_sides(const SidesRequest& request, const CommonOptions& common) {
  Progress progress(common);
  SideRunner runner(request, progress);
  int64_t repeats = request.repeats ? *request.repeats
                                    : repeats_in_a_second(times_of(runner.run(WhichSide::kBaseline, 1, false)).at(0));
  // A process that searches first is slower for a while than those that find its measurements.
  if (request.compiled) runner.run(WhichSide::kCandidate, 1, false);
  Sides sides;
  auto take = [&](WhichSide side, std::vector<ProcessTimes>& times, Json& first) {
    Json printed = runner.run(side, repeats, first.is_null());
    times.push_back(times_of(printed));
    if (first.is_null()) first = std::move(printed);
  };
  for (int64_t round = 0; round < request.rounds; ++round) {
    take(WhichSide::kBaseline, sides.baseline, sides.first_baseline);
    take(WhichSide::kCandidate, sides.candidate, sides.first_candidate);
    // A plan keeps the fusions of the tree.
    if (round == 0 && !request.compiled)
      sides.displaced =
          displaced_fusions(sides.first_baseline.at("dispatches"), sides.first_candidate.at("dispatches"));
    if (!sides.displaced.empty()) take(WhichSide::kUnfused, sides.unfused, sides.first_unfused);
  }
  take(WhichSide::kBaseline, sides.baseline, sides.first_baseline);

  sides.compiled = request.compiled;
  sides.candidate_calls = calls_of_candidates(sides.first_candidate);
  sides.gain = compare_alternating(sides.baseline, sides.candidate, common.seed);
  set_same_where_nothing_ran(sides.gain, request.compiled
                                             ? sides.first_candidate.at("engine").at("compiled_steps").get<int64_t>()
                                             : sides.candidate_calls);
  if (!sides.unfused.empty()) {
    sides.lost = compare_alternating(sides.baseline, sides.unfused, common.seed);
    // Candidates between two unfused runs: the last round has none after it and is left out.
    if (sides.unfused.size() > 1) {
      std::vector<ProcessTimes> between(sides.candidate.begin() + 1, sides.candidate.end());
      sides.own = compare_alternating(sides.unfused, between, common.seed);
    }
  }
  return sides;
}

std::string verdict_word(const PairedResult& r) {
  return r.invalid.empty() ? std::string(speed_verdict_name(r.verdict)) : "INVALID";
}

Json paired_json(const PairedResult& r) {
  Interval interval = r.speedup_interval();
  return {{"speedup", r.speedup()},
          {"speedup_low", interval.low},
          {"speedup_high", interval.high},
          {"verdict", verdict_word(r)},
          {"control_error", std::expm1(r.control_error)},
          {"delta", r.delta},
          {"invalid", r.invalid}};
}

}  // namespace fk
