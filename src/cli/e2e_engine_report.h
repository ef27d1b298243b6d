// What `e2e throughput` and `e2e latency` print and store, as JSON and as text.
#pragma once

#include <string>
#include <vector>

#include "bench/e2e/engine_bench.h"
#include "cli/judged_candidates.h"
#include "cli/options.h"
#include "cli/side_processes.h"
#include "core/json.h"
#include "track/recorder.h"

namespace fk {

// Metrics with vLLM's names, the times of the loads, and the distributions that the dashboard draws.
Json engine_metrics_json(bool throughput, const EngineBenchResult& result);

// A comparison: both sides' metrics, the speed-up with its interval, and where the time goes.
Json compare_json(bool throughput, const Sides& sides, const std::vector<CandidateRecord>& judged);

// Of either: `json` has "type" and "mode".
void print_engine_report(const Json& json, const CommonOptions& common);
void record_engine_report(Recorder& recorder, const Json& json);

}  // namespace fk
