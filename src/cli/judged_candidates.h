// Looks up candidates in the history before a model runs with them: passed, failed, or never judged.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "candidate/swap.h"
#include "core/json.h"

namespace fk {

struct CandidateRecord {
  std::string op;
  std::string identity;                   // of the build: source, flags and compiler
  std::string judged = "never";           // or "passed", "failed"
  std::string verdict, scenario, run_id;  // of the failure
  std::optional<double> speedup;          // alone: the newest geometric mean that `kernels` measured of this build
};

// Looks each build up in a history ("" is the default one): the newest verdict of every scenario it was judged in on
// this kind of device. One scenario that failed is enough. Without a history nothing was judged.
std::vector<CandidateRecord> look_up_candidates(const std::vector<BuiltCandidate>& built, const std::string& db);

// Throws Error for the first that failed, unless `allow_incorrect`; prints a warning for every other that did not pass.
void check_judged(const std::vector<CandidateRecord>& records, bool allow_incorrect);

// The worst of all: "failed", "never", "passed"; empty without candidates.
std::string judged_at_worst(const std::vector<CandidateRecord>& records);
// "rms_norm never judged, softmax judged INCORRECT_NUMERICAL"; empty where all passed.
std::string describe_judged(const std::vector<CandidateRecord>& records);

}  // namespace fk
