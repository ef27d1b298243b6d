// The environment of a run: the checkout, the machine, its load.
#pragma once

#include <string>

#include "track/records.h"

namespace fk {

// `machine`: as `doctor --json` shows it. Unknown values stay empty; this never fails.
Environment collect_environment(const std::string& device, const Json& machine);

// Identifies the process that writes a run, so that others can check whether it is alive.
Json process_json();
// Whether the process of that description is alive; `unknown` on another host or for an older run.
bool process_alive(const Json& process, bool unknown = true);

}  // namespace fk
