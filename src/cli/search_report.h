// What `search` prints: the kernels that were written, how fast they are, and which a plan uses.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "compiler/plan/search_plan.h"
#include "core/json.h"

namespace fk {

struct SearchReport {
  std::string model;
  std::vector<std::string> candidates =
      {};                               // operators with a candidate of the user, which runs on the side of the calls
  std::vector<std::string> whole = {};  // implementations of the whole model
  std::vector<PhasePlan> plans = {};
  double trace_s = 0, total_s = 0;
};

Json plan_json(const PhasePlan& plan);
void print_search(const SearchReport& found, bool explain, const CommonOptions& common);

}  // namespace fk
