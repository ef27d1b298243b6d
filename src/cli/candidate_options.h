// The flags of verbs that run a model with the user's candidates in it.
#pragma once

#include <string>

#include "candidate/swap.h"
#include "cli/options.h"
#include "core/json.h"

namespace fk {

struct CandidateOptions {
  bool disabled = false;
  std::string cxxflags;
  bool allow_libraries = false;
};

// --cxxflags: refused where a quote stays open.
void add_cxxflags(FlagSet& flags, std::string& cxxflags, const std::string& help);

void add_candidate_options(FlagSet& flags, CandidateOptions& options);

// Compiles the candidates of the folder and puts them before the baselines. To be called before a model is built.
void activate_candidates(const CandidateOptions& options, const CommonOptions& common);

// Which implementation of which operator ran how often.
Json to_json(const std::vector<DispatchCount>& dispatches);

// One object per candidate: where it is asked first, and where another hides it.
Json to_json(const std::vector<CandidateUse>& uses);

}  // namespace fk
