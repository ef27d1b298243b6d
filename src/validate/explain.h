// Why a wrong output may be wrong: what it is equal to instead of the right answer, said in one sentence.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "validate/call_check.h"

namespace fk {

struct Explanation {
  std::string sentence;
  bool replay = false;  // the output of an earlier call, kept and handed out again: no accident
};

struct EarlierCall {
  const CallOutcome* outcome = nullptr;
  bool same_data = false;
};

// Looks at the first tensor that `truth` refuses. `stale` holds what the call should give with weights bound earlier.
std::optional<Explanation> explain(const CallTruth& truth, const CallOutcome& outcome,
                                   std::span<const EarlierCall> earlier, std::span<const Expected> stale);

}  // namespace fk
