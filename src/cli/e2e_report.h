// What `e2e` prints and stores: tables, JSON, metrics of the history.
#pragma once

#include <string>
#include <vector>

#include "bench/e2e/serving_metrics.h"
#include "cli/options.h"
#include "core/json.h"
#include "engine/engine.h"
#include "track/recorder.h"

namespace fk {

struct ServeLoad {
  double request_rate = 0;      // 0: all at once
  int64_t max_concurrency = 0;  // 0: no limit
  ServedLoad measured;
  ServingMetrics metrics;
  EngineStats server = {};  // of the server, where it says so: guessed tokens and steps alone
};

struct ServeReport {
  std::string server, model, dataset;
  bool goodput = false;
  std::vector<ServeLoad> loads;
};

Json serve_json(const ServeReport& report);
void print_serve(const ServeReport& report, const CommonOptions& common);
// One step of every metric per load.
void record_serve(Recorder& recorder, const ServeReport& report);

// Metrics and distributions of one load, as serve_json has them: also the quantiles that the dashboard draws.
Json load_json(const ServedLoad& load, const ServingMetrics& metrics);

// Replaces the file. Throws Error where it cannot be written.
void write_report(const std::string& path, const Json& json);

}  // namespace fk
