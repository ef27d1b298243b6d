// What `search` prints: the kernels that were written, how fast they are, and which a plan uses.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/options.h"
#include "compiler/plan/search_plan.h"
#include "core/json.h"
#include "track/recorder.h"

namespace fk {

struct SearchReport {
  std::string model;
  std::vector<std::string> candidates =
      {};                               // operators with a candidate of the user, which runs on the side of the calls
  std::vector<std::string> whole = {};  // implementations of the whole model
  std::vector<PhasePlan> plans = {};
  std::map<GraphPhase, TrialResult> steps = {};  // whole ones by plan and by tree, where weights were loaded
  double steps_s = 0;
  Json passes = Json::array();  // [{pass, steps}] as StepTrace::steps() has them; without weights calls have no time
  double trace_s = 0, total_s = 0;
};

Json plan_json(const PhasePlan& plan);
// What the dashboard shows of the kernels: calls, places, times, whether it was chosen.
Json kernels_json(const PhasePlan& plan);
// The steps of a plan that was not run: calls, and kernels with the time of their trial.
Json planned_steps(const GraphBody& flat, const PhasePlan& plan);
// To the history: what was found as results/search.json, with what the dashboard draws under "plan".
void record_search(Recorder& recorder, const SearchReport& found);
void print_search(const SearchReport& found, bool explain, const CommonOptions& common);

}  // namespace fk
