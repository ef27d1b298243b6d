// Which models became slower, or stopped running: each path of each model against its own newest runs.
#pragma once

#include "core/json.h"
#include "track/store.h"
#include "web/run_likeness.h"

namespace fk {

// Lists, what fails first, then the deepest fall. Times in milliseconds, with the samples' range as interval.
struct ModelRegressions {
  Json alarms = Json::array();
  Json changes = Json::array();  // between runs that are unlike: another candidate, or another load of the machine
};

ModelRegressions model_regressions(StoreReader& store, int window, RunLikeness& likeness);

}  // namespace fk
