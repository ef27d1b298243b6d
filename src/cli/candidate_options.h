// The flags of verbs that run a model with the user's candidates in it.
#pragma once

#include <string>

#include "candidate/swap.h"
#include "cli/judged_candidates.h"
#include "cli/options.h"
#include "core/json.h"

namespace fk {

class Ranks;

struct CandidateOptions {
  bool disabled = false;
  std::string cxxflags;
  bool allow_libraries = false;
  bool allow_incorrect = false;
};

// --cxxflags: refused if a quote is not closed.
void add_cxxflags(FlagSet& flags, std::string& cxxflags, const std::string& help);

void add_candidate_options(FlagSet& flags, CandidateOptions& options);

// Compiles the candidates of the folder, looks them up in the history `db` (judged_candidates.h), and ranks them before
// the baselines. Call it before a model is built.
std::vector<CandidateRecord> activate_candidates(const CandidateOptions& options, const CommonOptions& common,
                                                 const std::string& db = "");

// The same without ranking them: for a verb whose child processes do that.
std::vector<CandidateRecord> candidate_records(const CandidateOptions& options, const CommonOptions& common,
                                               const std::string& db);

// Which implementation of which operator ran how often.
Json to_json(const std::vector<DispatchCount>& dispatches);

// The same of this process as "dispatches", and with several ranks of each of them as "ranks". Every rank calls it.
Json gathered_dispatches(Ranks& ranks, const std::vector<DispatchCount>& dispatches);

// One object per candidate: where it is active, where a larger candidate contains it, and whether it was judged.
Json to_json(const std::vector<CandidateUse>& uses, const std::vector<CandidateRecord>& records);

}  // namespace fk
