// `ttft --compare` and `ttft` with several paths: two ways to run a model, measured in alternating processes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/ttft/ttft_compare.h"
#include "bench/ttft/ttft_outputs.h"
#include "cli/options.h"
#include "core/json.h"
#include "track/recorder.h"

namespace fk {

// One way to run the model.
struct CompareSide {
  std::string name;   // of columns: "without", "eager"
  std::string words;  // "without candidates"
  std::string path;   // in the history: "eager", "compiled", "candidate"
  std::vector<std::string> arguments;
};

struct CompareRequest {
  std::vector<std::string> arguments;  // of a `ttft` that times one side
  CompareSide base, other;
  int64_t rounds = 8;
  std::optional<int64_t> iters;  // in each process; else as many as take about a second
  std::string doubt;             // warning about candidates that were not judged or failed; empty if all passed
};

struct CompareResult {
  CompareSide base, other;
  TtftRounds rounds;  // `without` is the base
  TtftComparison comparison;
  Json base_printed, other_printed;         // what the first process of each side printed
  std::optional<OutputComparison> outputs;  // where the processes print them
  std::string doubt;

  int64_t candidate_calls() const;  // calls of candidates in one process of the other side
};

// Throws Error with the message of the process that failed.
CompareResult run_comparison(const CompareRequest& request, const CommonOptions& common);

// Of `--compare`.
void print_comparison(const CompareResult& result, const CommonOptions& common);
// `judged`: the worst verdict on the candidates in the history.
void record_comparison(Recorder& recorder, const CompareResult& result, const std::string& judged);

// Of several paths, all compared with the first.
void print_paths(const std::vector<CompareResult>& results, const CommonOptions& common);
void record_paths(Recorder& recorder, const std::vector<CompareResult>& results, const std::string& judged);

Json to_json(const TtftOutputs& outputs);
// `base` and `other` name the two ways whose outputs were compared.
Json to_json(const OutputComparison& c, const std::string& base, const std::string& other);
TtftOutputs outputs_from_json(const Json& json);

}  // namespace fk
