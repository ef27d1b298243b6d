// Attribution: how the time of a load is divided over the operators, and what a faster kernel can therefore gain.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/e2e/operator_times.h"
#include "core/json_fwd.h"

namespace fk {

// Shares are of the time of the whole load, so that they add up to less than 1: the rest is planning, drawing tokens
// and output.
struct Attribution {
  double load_ms = 0;
  std::vector<OperatorShare> operators;  // largest first
  std::vector<CallSpan> step;            // the last step of the load

  // Of all implementations together, with what they call: a candidate replaces that too.
  double inclusive_ms_of(const std::string& op) const;
  double share_of(const std::string& op) const;
  double rest() const;
};

Attribution make_attribution(const OperatorTimes& times, double load_ms);
// Of several loads of the same work: the least time of each operator and of the whole, since other programs only add to
// times; the step of the fastest.
Attribution least_of(const std::vector<Attribution>& loads);
Json to_json(const Attribution& attribution);
Attribution attribution_from_json(const Json& json);

// One candidate: what it gives alone, inside the model, and what of that the model can show. Its time includes that of
// the operators it replaces.
struct CandidateGain {
  std::string op;
  double share = 0;                // of the baseline's load
  std::optional<double> alone;     // speed-up that `kernels` measured, where the history has it
  std::optional<double> in_model;  // time in the baseline's load over that in the candidates' load
};

CandidateGain candidate_gain(const std::string& op, const Attribution& baseline, const Attribution& candidates,
                             std::optional<double> alone);

// The speed-up of the whole that these gains together allow (Amdahl's law), by in_model. A candidate
// without it ran nowhere.
double expected_together(const std::vector<CandidateGain>& gains);

}  // namespace fk
