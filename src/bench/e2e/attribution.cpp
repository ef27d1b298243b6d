#include "bench/e2e/attribution.h"

#include <algorithm>

#include "core/json.h"

namespace fk {

double Attribution::inclusive_ms_of(const std::string& op) const {
  double sum = 0;
  for (const OperatorShare& s : operators)
    if (s.op == op) sum += s.inclusive_ms;
  return sum;
}

double Attribution::share_of(const std::string& op) const { return load_ms > 0 ? inclusive_ms_of(op) / load_ms : 0; }

double Attribution::rest() const {
  double sum = 0;
  for (const OperatorShare& s : operators) sum += s.share;
  return std::max(0.0, 1 - sum);
}

Attribution make_attribution(const OperatorTimes& times, double load_ms) {
  Attribution a;
  a.load_ms = load_ms;
  a.operators = times.shares();
  for (OperatorShare& s : a.operators) s.share = load_ms > 0 ? s.own_ms / load_ms : 0;
  a.step = times.last_step();
  return a;
}

Attribution least_of(const std::vector<Attribution>& loads) {
  Attribution least = *std::min_element(
      loads.begin(), loads.end(), [](const Attribution& a, const Attribution& b) { return a.load_ms < b.load_ms; });
  for (OperatorShare& s : least.operators) {
    for (const Attribution& load : loads)
      for (const OperatorShare& other : load.operators) {
        if (other.op != s.op || other.implementation != s.implementation || other.calls != s.calls) continue;
        s.own_ms = std::min(s.own_ms, other.own_ms);
        s.inclusive_ms = std::min(s.inclusive_ms, other.inclusive_ms);
      }
    s.share = least.load_ms > 0 ? s.own_ms / least.load_ms : 0;
  }
  std::stable_sort(least.operators.begin(), least.operators.end(),
                   [](const OperatorShare& a, const OperatorShare& b) { return a.own_ms > b.own_ms; });
  return least;
}

Json to_json(const Attribution& a) {
  Json operators = Json::array(), step = Json::array();
  for (const OperatorShare& s : a.operators)
    operators.push_back({{"operator", s.op},
                         {"implementation", s.implementation},
                         {"calls", s.calls},
                         {"own_ms", s.own_ms},
                         {"inclusive_ms", s.inclusive_ms},
                         {"share", s.share}});
  for (const CallSpan& c : a.step)
    step.push_back({{"operator", c.op},
                    {"implementation", c.implementation},
                    {"path", c.path},
                    {"depth", c.depth},
                    {"start_ms", c.start_ms},
                    {"duration_ms", c.duration_ms}});
  return {{"load_ms", a.load_ms}, {"rest", a.rest()}, {"operators", operators}, {"step", step}};
}

Attribution attribution_from_json(const Json& json) {
  Attribution a;
  a.load_ms = json.at("load_ms").get<double>();
  for (const Json& s : json.at("operators"))
    a.operators.push_back({s.at("operator").get<std::string>(), s.at("implementation").get<std::string>(),
                           s.at("calls").get<int64_t>(), s.at("own_ms").get<double>(),
                           s.at("inclusive_ms").get<double>(), s.at("share").get<double>()});
  for (const Json& c : json.at("step"))
    a.step.push_back({c.at("operator").get<std::string>(), c.at("implementation").get<std::string>(),
                      c.at("path").get<std::string>(), c.at("depth").get<int>(), c.at("start_ms").get<double>(),
                      c.at("duration_ms").get<double>()});
  return a;
}

CandidateGain candidate_gain(const std::string& op, const Attribution& baseline, const Attribution& candidates,
                             std::optional<double> alone) {
  CandidateGain gain{op, baseline.share_of(op), alone, std::nullopt};
  double before = baseline.inclusive_ms_of(op), now = candidates.inclusive_ms_of(op);
  if (before > 0 && now > 0) gain.in_model = before / now;
  return gain;
}

double expected_together(const std::vector<CandidateGain>& gains) {
  double rest = 1;
  for (const CandidateGain& g : gains) {
    if (g.in_model && *g.in_model > 0) rest += g.share / *g.in_model - g.share;
  }
  return rest > 0 ? 1 / rest : 1;
}

}  // namespace fk
