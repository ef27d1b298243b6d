// Where a user's candidates lie: tasks/candidate/L{1..4}/{op}.cpp of the current directory, or the same tree elsewhere.
#pragma once

#include <string>
#include <vector>

#include "ops/registry.h"

namespace fk {

// A candidate's source file and the operator it is named after.
struct CandidateFile {
  const OperatorInfo* op = nullptr;
  std::string path;
};

// $FASTKERNELS_CANDIDATE_DIR, or tasks/candidate of the current directory.
std::string candidate_folder();

// Every candidate of the folder, L1 first, by name within a level; none where the folder does not exist. Throws Error
// with what to do for a file named after no operator, in the folder of another level, or for a device this build has
// not.
std::vector<CandidateFile> find_candidates(const std::string& folder);

// The candidate of one operator; throws Error that says how to start where there is none.
CandidateFile find_candidate(const std::string& folder, const OperatorInfo& op);

// How to start, for commands that found the folder empty.
std::string no_candidates_sentence(const std::string& folder);

}  // namespace fk
