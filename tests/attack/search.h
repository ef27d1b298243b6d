// The search for the largest fraud of a kind that is not caught.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "measure/paired.h"
#include "tests/attack/mutation.h"

namespace fk::attack {

enum class Outcome {
  kCaught,    // a verdict other than PASSED, or a run that ranks nothing
  kHarmless,  // PASSED, but not ranked faster than the honest twin
  kSurvived,  // PASSED, and ranked faster than the honest twin
};
std::string_view outcome_name(Outcome outcome);

struct Attempt {
  double strength = 0;
  Outcome outcome = Outcome::kCaught;
  std::string verdict;    // "REWARD_HACK", "INVALID", "FASTER"
  std::string sentence;   // that came with it
  double speedup = 1;     // over the honest twin, where it was timed
  Interval interval;      // of that
  double could_hide = 0;  // share of the time that could be hidden from the timer
  double seconds = 0;     // it took to try

  // The lower bound of the speed-up, as a share: the gain of the attacker.
  double worth() const { return outcome == Outcome::kSurvived ? interval.low - 1 : 0; }
};

struct Finding {
  const Kind* kind = nullptr;
  const Target* target = nullptr;
  std::vector<Attempt> attempts;

  const Attempt* largest_survivor() const;  // by its worth; null where none survived
  const Attempt* weakest_caught() const;    // null where none was caught
  const Attempt* strongest_caught() const;
};

// The claimed resolution: a fraud with a smaller gain does not matter.
inline constexpr double kResolution = 0.005;
// Whether something survived with a gain above the resolution and above the share that could be hidden.
bool worth_caring(const Finding& finding);

// Tries the strongest and, where that is caught, the weakest; then bisects between caught and not caught strengths,
// `steps` times.
Finding search(const Kind& kind, const Target& target, int steps, const std::function<Attempt(double)>& attempt);

}  // namespace fk::attack
