// Two ways to run one model in alternating processes: the baseline and candidates, or its tree and plans. Where
// candidates displace a fusion, the baseline without that fusion too.
//
//   baseline, candidates, (unfused,) baseline, candidates, (unfused,) ... baseline
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/options.h"
#include "core/json.h"
#include "measure/alternating.h"

namespace fk {

struct SidesRequest {
  std::vector<std::string> arguments;           // of a run that measures one side and prints JSON
  std::vector<std::string> baseline_arguments;  // more, for each side
  std::vector<std::string> candidate_arguments;
  std::vector<std::string> operators;  // that have candidates
  bool compiled = false;  // the sides are the tree ("eager") and plans ("compiled"), both with the same candidates
  int64_t rounds = 5;
  std::optional<int64_t> repeats;  // loads in each process; else as many as take about a second
};

struct Sides {
  std::vector<ProcessTimes> baseline, candidate, unfused;  // "samples_ms" of each process
  Json first_baseline, first_candidate, first_unfused;     // what the first process of each side printed

  PairedResult gain;                 // candidates against the baseline as it is: what the user gets
  std::optional<PairedResult> own;   // against the baseline without the fusions: what the kernels do themselves
  std::optional<PairedResult> lost;  // the baseline without the fusions against the baseline as it is
  std::set<std::string> displaced;   // fused implementations that the candidates keep from running: "op: name"
  int64_t candidate_calls = 0;       // in the first process with candidates
  bool compiled = false;             // as in the request
};

// A process gets --repeats=N, and the first of each side --attribute. Throws Error with the message of the process that
// failed.
Sides run_sides(const SidesRequest& request, const CommonOptions& common);

// From lists of dispatches as candidate_options.h prints them: fused implementations that ran in the baseline and did
// not run with candidates.
std::set<std::string> displaced_fusions(const Json& baseline, const Json& candidate);

// Speed-up, interval, verdict and A/A of a comparison, for tables and JSON.
Json paired_json(const PairedResult& result);
std::string verdict_word(const PairedResult& result);  // "INVALID" where it is not ranked

}  // namespace fk
