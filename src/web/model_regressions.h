// Which models became slower, or stopped running: each path of each model against its own newest runs.
#pragma once

#include "core/json.h"
#include "track/store.h"

namespace fk {

// A list, what fails first, then the deepest fall. Times in milliseconds, with the samples' range as interval.
Json model_regressions_json(StoreReader& store, int window);

}  // namespace fk
