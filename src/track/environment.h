// What a run was made with: the checkout, the machine, the load it was under.
#pragma once

#include <string>

#include "track/records.h"

namespace fk {

// `machine`: as `doctor --json` shows it. What cannot be found out stays empty; nothing here fails.
Environment collect_environment(const std::string& device, const Json& machine);

// The process that writes a run, so that others can tell whether it still does.
Json process_json();
// Whether the process of that description is alive; `unknown` where it cannot be told: on another host, an older run.
bool process_alive(const Json& process, bool unknown = true);

}  // namespace fk
