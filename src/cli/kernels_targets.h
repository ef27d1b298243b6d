// Which operators a `kernels` run judges, and on which scenarios.
#pragma once

#include <string>
#include <vector>

#include "bench/scenarios/generate.h"
#include "cli/kernels_report.h"

namespace fk {

struct TargetOptions {
  DeviceKind device = DeviceKind::kCpu;
  std::vector<std::string> scenario_files;  // empty: the catalog's shapes
  bool self_test = false;                   // the baseline is used as the candidate
  bool list = false;                        // nothing will run, so candidates are not needed
  bool one_scenario = false;                // the filter is an exact name, if one matches exactly
};

// Fills in the defaults of `select`: a model, and a tensor-parallel size. Throws Error where nothing is selected.
std::vector<KernelTarget> choose_targets(ScenarioSelection& select, const TargetOptions& options);

}  // namespace fk
