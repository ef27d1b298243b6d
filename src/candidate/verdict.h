// Verdict: the judge's result for a candidate, always with a sentence.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

enum class Verdict : uint8_t {
  kPassed,
  kIncorrectShape,
  kIncorrectDtype,
  kIncorrectNumerical,
  kIncorrectState,
  kInputMutated,
  kOutOfBounds,
  kNondeterministic,
  kRewardHack,
  kImpossibleTime,
  kTampered,
  kTimeout,
  kCrashed,
  kOutOfMemory,
  kBuildError,
  kSignatureMismatch,
  kInvalidTask,
  kRefused,  // by the candidate itself: it does not support such a call
};

std::string_view verdict_name(Verdict v);  // "INCORRECT_NUMERICAL"
std::optional<Verdict> verdict_from_name(std::string_view name);

// Why a call or a candidate is refused.
struct Failure {
  Verdict verdict = Verdict::kCrashed;
  std::string sentence;
};

}  // namespace fk
