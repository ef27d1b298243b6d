// One row of a suite: a path of a configuration, measured in a process of its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/ttft/suite_plan.h"
#include "bench/ttft/ttft_outputs.h"
#include "cli/candidate_options.h"
#include "cli/options.h"
#include "cli/watched_process.h"
#include "track/records.h"

namespace fk {

// What a row is measured with, besides its configuration.
struct SuiteSetting {
  CommonOptions common;        // --threads, --seed, --device
  bool device_given = false;   // on the command line: before that of a configuration
  bool threads_given = false;  // likewise
  std::string db;              // where candidates are looked up
  CandidateOptions candidates;
  std::vector<CandidateRecord> judged;
  int64_t seeds = 1;  // of the search, for the compiled path
  std::string python;

  Device device_of(const SuiteConfig& config) const;
  int threads_of(const SuiteConfig& config) const;
};

struct SuiteResult {
  SuiteRow row;
  TtftRecord record = {};  // with error, or with a note that begins with "skipped"
  std::optional<TtftOutputs> outputs = {};
  std::vector<TtftOutputs> of_other_seeds = {};  // each may have found another plan
  std::string not_comparable = {};               // why its outputs are not compared; empty: they can be
  bool skipped = false;
  bool out_of_memory = false;

  bool failed() const { return !record.error.empty(); }
  std::string label() const { return label_of(row); }
  // "compiled", "compiled 100".
  static std::string label_of(const SuiteRow& row);
};

// A result without times, for rows that are not run.
SuiteResult skipped_row(const SuiteRow& row, const SuiteSetting& setting, const std::string& why);

// Runs it; a failure is a result. `show`: progress. `sample`: called some times a second while a process runs.
SuiteResult run_row(const SuiteRow& row, const SuiteSetting& setting,
                    const std::function<void(const std::string&)>& show, const std::function<void()>& sample);

// The time to search and its phases, of the "plan" that a process printed.
void set_search(TtftRecord& record, const Json& plan);

// Compares with the first result of the configuration that has outputs, and stores what it finds.
void compare_with(SuiteResult& result, const SuiteResult& reference);

}  // namespace fk
