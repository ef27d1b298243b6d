// Measures an engine: the same kind of load several times, and some more in which every operator is timed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "bench/e2e/attribution.h"
#include "bench/e2e/engine_load.h"
#include "engine/batching_engine.h"

namespace fk {

struct EngineBenchOptions {
  int64_t warmups = 1;
  int64_t repeats = 1;
  bool attribute = false;
  // The requests of repeat i; those of warm-ups have negative numbers. Different ones every time, since the engine may
  // keep what it computed for a prompt.
  std::function<std::vector<BenchRequest>(int64_t i)> load;
  std::function<void(std::string_view)> progress = {};
};

struct EngineBenchResult {
  std::vector<ServedLoad> loads;           // by repeat
  std::optional<Attribution> attribution;  // of loads after them
  EngineStats stats;                       // of the repeats together
};

// Steps run on this thread. With several ranks all of them call it with the same options.
EngineBenchResult run_engine_bench(BatchingEngine& engine, const EngineBenchOptions& options);

// As vLLM's benchmark of latency has them: 10, 25, 50, 75, 90 and 99 %.
std::vector<std::pair<int, double>> latency_percentiles(std::vector<double> seconds);

}  // namespace fk
