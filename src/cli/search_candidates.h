// The candidates of a search: one that was never judged is judged before anything runs with it.
#pragma once

#include <vector>

#include "cli/candidate_options.h"
#include "cli/output.h"
#include "models/resolve.h"

namespace fk {

// activate_candidates, but candidates that no run of `kernels` has judged, and that the model calls, are first judged
// in a few of its calls as `kernels --check` does, in the sandboxed process that judges have: a search runs candidates
// in its own process, and holds them for right. Throws Error for one that is wrong, crashes or hangs, unless
// --allow-incorrect is given; then none is judged.
std::vector<CandidateRecord> judged_candidates_for(const ModelSource& source, const CandidateOptions& options,
                                                   const CommonOptions& common, Progress& progress);

}  // namespace fk
