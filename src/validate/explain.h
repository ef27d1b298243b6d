// Explains a wrong output in one sentence: what it is equal to instead of the right answer.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "validate/call_check.h"

namespace fk {

struct Explanation {
  std::string sentence;
  bool replay = false;  // the right output of an earlier call was saved and returned again: this is not an accident
};

struct EarlierCall {
  const CallOutcome* outcome = nullptr;
  bool same_data = false;
  bool right = false;  // its output was right for its own data
  // Its data are no other ones but for an element that was changed: a kernel that never reads that element repeats its
  // output, and is wrong, not a replay.
  bool similar_data = false;
};

// Looks at the first tensor that `truth` refuses. `stale`: the expected results with weights that were bound earlier.
std::optional<Explanation> explain(const CallTruth& truth, const CallOutcome& outcome,
                                   std::span<const EarlierCall> earlier, std::span<const Expected> stale);

}  // namespace fk
