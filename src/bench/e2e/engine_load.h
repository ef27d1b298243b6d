// Runs a load on an engine in this process, without a server: all requests at once.
#pragma once

#include <functional>
#include <vector>

#include "bench/e2e/dataset.h"
#include "bench/e2e/serving_metrics.h"
#include "engine/engine.h"

namespace fk {

// Every request generates exactly output_len tokens: stop tokens are ignored. Times are taken when the engine gives a
// token out; TTFT counts from the start of the load. `step` runs one step of the engine on this thread and returns
// whether there is more to do; without it the engine runs by itself, and this function waits. Throws Error with the
// sentence of the first request that failed: a load that is not complete has no throughput.
ServedLoad run_on_engine(Engine& engine, const std::vector<BenchRequest>& requests,
                         const std::function<bool()>& step = {});

}  // namespace fk
