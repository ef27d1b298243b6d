// Ranks the candidates of a folder before the baselines, and reports where a built tree uses them.
//
// Order of use: swap_in before any tree is built, then build, then the reports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "candidate/compile.h"
#include "candidate/folder.h"
#include "ops/node.h"

namespace fk {

inline constexpr std::string_view kCandidateName = "candidate";  // as an implementation, in lists and counters

struct BuiltCandidate {
  CandidateFile file;
  CompileResult compiled;

  // Identifies the build: the name of the object is a hash of source, flags and compiler.
  std::string identity() const;
};

// Compiles each of them, L1 first. Throws Error with the message of the first that fails.
std::vector<BuiltCandidate> build_candidates(const std::vector<CandidateFile>& files, const CompileOptions& options);
// Loads and registers them.
void swap_in(const std::vector<BuiltCandidate>& built);
// Both.
void swap_in(const std::vector<CandidateFile>& files, const CompileOptions& options);

// How often an operator with a candidate occurs in a tree, and where a larger candidate replaces it.
struct CandidateUse {
  std::string op;
  int64_t active = 0;  // places where this candidate is tried first
  // Places where it is not used, because ranks add up or collect their parts there, which a candidate cannot.
  int64_t between_ranks = 0;
  struct Hidden {
    std::string by;
    int64_t places = 0;
  };
  std::vector<Hidden> hidden = {};  // places inside a larger candidate, which replaces it
};

// One per candidate in the registry, by level and name. Calls that a candidate refuses are run by other
// implementations: collect_dispatches tells what really ran.
std::vector<CandidateUse> candidate_uses(const Node& root);

// "candidates: llama_mlp in 16 places; llama_mlp hides silu_and_mul in 16 places", or nothing without candidates.
std::string describe_uses(const std::vector<CandidateUse>& uses);

}  // namespace fk
