#include "web/regressions.h"

#include <algorithm>

namespace fk {
namespace {

bool timed(const SeriesPoint& p) { return p.passed && p.speedup && p.low && p.high; }

enum class Side { kGood, kBad, kNeither };

// Goes back from the newest run while runs are bad; the last of them is the first bad one in time.
template <class Judge>
std::optional<Regression> between(const std::vector<SeriesPoint>& runs, Regression found, Judge judge) {
  const SeriesPoint* first_bad = &runs.front();
  for (const SeriesPoint& p : runs) {
    Side side = p.skipped ? Side::kNeither : judge(p);
    if (side == Side::kGood) {
      found.last_good = p;
      found.first_bad = *first_bad;
      return found;
    }
    if (side == Side::kBad) first_bad = &p;
  }
  return std::nullopt;
}

// `runs` begin with one that is not skipped.
std::optional<Regression> regression_among(const std::vector<SeriesPoint>& runs) {
  Regression found;
  found.latest = runs.front();

  if (!found.latest.passed) {
    auto passed = std::find_if(runs.begin(), runs.end(), [](const SeriesPoint& p) { return p.passed; });
    if (passed == runs.end()) return std::nullopt;
    found.incorrect = true;
    found.before = *passed;
    return between(runs, found, [](const SeriesPoint& p) { return p.passed ? Side::kGood : Side::kBad; });
  }
  if (!timed(found.latest)) return std::nullopt;

  const SeriesPoint* best = nullptr;
  for (const SeriesPoint& p : runs)
    if (&p != &runs.front() && timed(p) && (best == nullptr || *p.low > *best->low)) best = &p;
  if (best == nullptr || *found.latest.high >= *best->low) return std::nullopt;
  double fall = 1 - *found.latest.speedup / *best->speedup;
  if (fall <= std::max(best->delta, found.latest.delta)) return std::nullopt;
  found.before = *best;
  // A run that could not be ranked, or failed for another reason, does not show when it became slower.
  return between(runs, found, [&](const SeriesPoint& p) {
    if (!timed(p)) return Side::kNeither;
    return *p.high >= *best->low ? Side::kGood : Side::kBad;
  });
}

std::string unlike_words(const SeriesPoint& a, const SeriesPoint& b) {
  bool candidate = a.candidate != b.candidate, load = a.busy != b.busy;
  return candidate && load ? "another candidate and another load"
         : candidate       ? "another candidate"
         : load            ? "another load"
                           : "";
}

}  // namespace

std::optional<Regression> find_regression(const std::vector<SeriesPoint>& newest_first) {
  auto newest = std::find_if(newest_first.begin(), newest_first.end(), [](const SeriesPoint& p) { return !p.skipped; });
  if (newest == newest_first.end()) return std::nullopt;
  std::vector<SeriesPoint> runs(newest, newest_first.end()), alike;
  for (const SeriesPoint& p : runs)
    if (unlike_words(p, runs.front()).empty()) alike.push_back(p);
  if (auto found = regression_among(alike)) return found;
  std::optional<Regression> found = regression_among(runs);
  if (found) found->unlike = unlike_words(found->before, found->latest);
  // There is no regression between comparable runs; other runs in between do not matter.
  return found && found->unlike.empty() ? std::nullopt : found;
}

}  // namespace fk
