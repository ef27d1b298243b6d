// The parts of `history`, one per action.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "track/store.h"

namespace fk {

void print_runs(StoreReader& store, const RunQuery& query, const CommonOptions& common);
void print_operator_history(StoreReader& store, const RunQuery& query, const CommonOptions& common);
void print_best(StoreReader& store, const RunQuery& query, const CommonOptions& common);

void print_run(StoreReader& store, const std::string& run_id, const CommonOptions& common);
void print_diff(StoreReader& store, const std::string& before, const std::string& after, const CommonOptions& common);

// "runs", "results", "ttft" or "metrics" as CSV, or everything as JSON lines.
void export_runs(StoreReader& store, const std::vector<std::string>& run_ids, const std::string& table,
                 const std::string& out_path, const CommonOptions& common);

// Throws Error with the nearest names where no run has results of this operator.
void check_operator(StoreReader& store, const std::string& op);

std::string interval_text(std::optional<double> low, std::optional<double> high);  // "1.10 .. 1.20"
std::string speedup_text(std::optional<double> speedup);                           // "1.150x"
std::string key_metrics_text(const RunRecord& run, const std::vector<OperatorRecord>& operators);

}  // namespace fk
