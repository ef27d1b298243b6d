// `ttft --suite`: every path of every configuration of a file in a process of its own, each stored as soon as it is
// measured.
#pragma once

#include <string>

#include "cli/candidate_options.h"
#include "cli/options.h"
#include "cli/record_options.h"
#include "cli/suite_row.h"

namespace fk {

struct SuiteOptions {
  std::string file;
  std::string mode;    // empty: single for one configuration, else all-configs
  std::string config;  // its name; empty: all
  int64_t seeds = 1;
  std::string python;  // empty: FASTKERNELS_PYTHON, or python3
};

void add_suite_options(FlagSet& flags, SuiteOptions& options);
// Throw UsageError for flags that do not belong together.
void check_suite_flags(const FlagSet& flags);
void check_no_suite_flags(const FlagSet& flags);

// Throws Error where rows failed, after all were run and printed.
void run_suite(const SuiteOptions& options, const RecordOptions& record, const CandidateOptions& candidates,
               const CommonOptions& common);

}  // namespace fk
