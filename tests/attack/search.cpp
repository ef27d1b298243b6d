#include "tests/attack/search.h"

#include <algorithm>

namespace fk::attack {

std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kCaught:
      return "caught";
    case Outcome::kHarmless:
      return "harmless";
    case Outcome::kSurvived:
      return "survived";
  }
  return "";
}

const Attempt* Finding::largest_survivor() const {
  const Attempt* best = nullptr;
  for (const Attempt& a : attempts)
    if (a.outcome == Outcome::kSurvived && (best == nullptr || a.worth() > best->worth())) best = &a;
  return best;
}

const Attempt* Finding::weakest_caught() const {
  const Attempt* weakest = nullptr;
  for (const Attempt& a : attempts)
    if (a.outcome == Outcome::kCaught && (weakest == nullptr || a.strength < weakest->strength)) weakest = &a;
  return weakest;
}

const Attempt* Finding::strongest_caught() const {
  const Attempt* strongest = nullptr;
  for (const Attempt& a : attempts)
    if (a.outcome == Outcome::kCaught && (strongest == nullptr || a.strength > strongest->strength)) strongest = &a;
  return strongest;
}

bool worth_caring(const Finding& finding) {
  return std::any_of(finding.attempts.begin(), finding.attempts.end(),
                     [](const Attempt& a) { return a.worth() > kResolution + a.could_hide; });
}

Finding search(const Kind& kind, const Target& target, int steps, const std::function<Attempt(double)>& attempt) {
  Finding finding{&kind, &target, {}};
  auto caught = [&](double strength) {
    finding.attempts.push_back(attempt(strength));
    return finding.attempts.back().outcome == Outcome::kCaught;
  };
  if (!caught(kind.most) || kind.least == kind.most) return finding;
  if (caught(kind.least)) return finding;
  double low = kind.least, high = kind.most;
  for (int step = 0; step < steps; ++step) {
    double middle = between(kind, low, high);
    if (middle <= low || middle >= high) break;
    (caught(middle) ? high : low) = middle;
  }
  return finding;
}

}  // namespace fk::attack
