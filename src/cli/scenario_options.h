// The flags of every verb that works on scenarios.
#pragma once

#include "bench/scenarios/scenario.h"
#include "cli/flags.h"

namespace fk {

void add_selection_options(FlagSet& flags, ScenarioSelection& selection);

}  // namespace fk
