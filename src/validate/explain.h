// Explains a wrong output in one sentence: what it is equal to instead of the right answer.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "validate/call_check.h"

namespace fk {

struct Explanation {
  std::string sentence;
  bool replay = false;  // the output is that of an earlier call, saved and returned again: this is not an accident
};

struct EarlierCall {
  const CallOutcome* outcome = nullptr;
  bool same_data = false;
};

// Looks at the first tensor that `truth` refuses. `stale`: the expected results with weights that were bound earlier.
std::optional<Explanation> explain(const CallTruth& truth, const CallOutcome& outcome,
                                   std::span<const EarlierCall> earlier, std::span<const Expected> stale);

}  // namespace fk
