// `ttft --compare`: whether the user's candidates make a model faster, measured in alternating processes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/ttft/ttft_compare.h"
#include "cli/options.h"
#include "core/json.h"
#include "track/recorder.h"

namespace fk {

struct CompareRequest {
  std::vector<std::string> arguments;            // of a `ttft` that times one side
  std::vector<std::string> candidate_arguments;  // more, for the side with candidates
  int64_t rounds = 8;
  std::optional<int64_t> iters;  // in each process; else as many as take about a second
  std::string doubt;             // warning about candidates that were not judged or failed; empty if all passed
};

struct CompareResult {
  TtftRounds rounds;
  TtftComparison comparison;
  Json without, with;  // what the first process of each side printed
  std::string doubt;

  int64_t candidate_calls() const;  // calls of candidates in one process
};

// Throws Error with the message of the process that failed.
CompareResult run_comparison(const CompareRequest& request, const CommonOptions& common);

void print_comparison(const CompareResult& result, const CommonOptions& common);
// `judged`: the worst verdict on the candidates in the history.
void record_comparison(Recorder& recorder, const CompareResult& result, const std::string& judged);

}  // namespace fk
