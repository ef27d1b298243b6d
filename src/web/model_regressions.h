// Which models became slower, or stopped running: each path of each model against its own newest runs.
#pragma once

#include "core/json.h"
#include "track/store.h"
#include "web/run_likeness.h"

namespace fk {

// Lists failures first, then the largest slowdowns. Times in milliseconds, with the range of the samples as interval.
struct ModelRegressions {
  Json alarms = Json::array();
  Json changes = Json::array();  // between runs with another candidate or another load
};

ModelRegressions model_regressions(StoreReader& store, int window, RunLikeness& likeness);

}  // namespace fk
