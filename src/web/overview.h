// The first page: regressions, the best of each operator, the newest of each model, the latest runs.
#pragma once

#include "core/json.h"
#include "track/store.h"

namespace fk {

inline constexpr int kRegressionWindow = 20;  // runs of an operator that its newest one is compared with

Json overview_json(StoreReader& store);

}  // namespace fk
