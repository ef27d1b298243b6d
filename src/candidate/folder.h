// Finds a user's candidates: tasks/candidate/L{1..4}/{op}.cpp (for the CPU) and .cu (for CUDA) of the current
// directory, or the same tree elsewhere.
#pragma once

#include <string>
#include <vector>

#include "ops/registry.h"

namespace fk {

// A candidate's source file and the operator it is named after.
struct CandidateFile {
  const OperatorInfo* op = nullptr;
  std::string path;

  DeviceKind device() const { return path.ends_with(".cu") ? DeviceKind::kCuda : DeviceKind::kCpu; }
};

// $FASTKERNELS_CANDIDATE_DIR, or tasks/candidate of the current directory.
std::string candidate_folder();

// The candidates of the folder that are written for `device`, L1 first, by name within a level; none where the folder
// does not exist. Throws Error for a file that is not named after an operator, or in the folder of another level.
std::vector<CandidateFile> find_candidates(const std::string& folder, DeviceKind device = DeviceKind::kCpu);

// The candidate of one operator for `device`; throws Error that says how to start where there is none.
CandidateFile find_candidate(const std::string& folder, const OperatorInfo& op, DeviceKind device = DeviceKind::kCpu);

// How to start, for commands that found nothing for their device in the folder.
std::string no_candidates_sentence(const std::string& folder, DeviceKind device = DeviceKind::kCpu);

std::string_view candidate_suffix(DeviceKind device);  // ".cpp" or ".cu"

}  // namespace fk
