// Puts the candidates of a folder before the baselines, and tells from a built tree what they reach.
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

  // Names what was built: source, flags and compiler are in the name of the object.
  std::string identity() const;
};

// Compiles each of them, L1 first. Throws Error with the first one's sentence that fails.
std::vector<BuiltCandidate> build_candidates(const std::vector<CandidateFile>& files, const CompileOptions& options);
// Loads and registers them.
void swap_in(const std::vector<BuiltCandidate>& built);
// Both.
void swap_in(const std::vector<CandidateFile>& files, const CompileOptions& options);

// How often an operator with a candidate stands in a tree, and where a larger candidate replaces it with its parts.
struct CandidateUse {
  std::string op;
  int64_t active = 0;  // places where this candidate is asked first
  struct Hidden {
    std::string by;
    int64_t places = 0;
  };
  std::vector<Hidden> hidden = {};  // places inside another candidate, which does that part itself
};

// One per candidate in the registry, by level and name. A candidate that refuses calls leaves them, and those hidden in
// it, to others: collect_dispatches says what really ran.
std::vector<CandidateUse> candidate_uses(const Node& root);

// "candidates: llama_mlp in 16 places; llama_mlp hides silu_and_mul in 16 places", or nothing without candidates.
std::string describe_uses(const std::vector<CandidateUse>& uses);

}  // namespace fk
