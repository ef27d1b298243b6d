// The flags of every verb that works on scenarios.
#pragma once

#include <CLI/CLI.hpp>

#include "bench/scenarios/scenario.h"

namespace fk {

void add_selection_options(CLI::App& app, ScenarioSelection& selection);

}  // namespace fk
