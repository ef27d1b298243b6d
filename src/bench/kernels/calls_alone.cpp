#include "bench/kernels/calls_alone.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "measure/statistics.h"

namespace fk {
namespace {
constexpr size_t kBaseline = 0, kCandidate = 1, kControl = 2;

template <class Value>
CallsAlone::OfSides medians(size_t count, const Value& value) {
  CallsAlone::OfSides of_sides{};
  for (size_t side = 0; side < CallsAlone::kSides; ++side) {
    std::vector<double> values;
    for (size_t i = 0; i < count; ++i) values.push_back(value(i, side));
    of_sides[side] = median(values);
  }
  return of_sides;
}
}  // namespace

void CallsAlone::add(const OfSides& alone, const OfSides& together) {
  alone_.push_back(alone);
  together_.push_back(together);
}

CallsAlone::OfSides CallsAlone::alone_ns() const {
  return medians(alone_.size(), [&](size_t i, size_t side) { return alone_[i][side]; });
}

CallsAlone::OfSides CallsAlone::slower_ns() const {
  return medians(alone_.size(), [&](size_t i, size_t side) { return alone_[i][side] - together_[i][side]; });
}

std::string CallsAlone::objection(int threads) const {
  if (empty()) return {};
  OfSides alone = alone_ns(), slower = slower_ns();
  // With threads, waking them is most of it, and pools differ in how they wait.
  double allowed = threads > 1 ? 60e3 + 0.5 * alone[kCandidate] : 1e3 + 0.1 * alone[kCandidate];
  allowed += 2 * std::abs(slower[kBaseline] - slower[kControl]);
  if (slower[kCandidate] <= std::max(slower[kBaseline], slower[kControl]) + allowed) return {};
  return fmt::format(
      "A call alone takes {:.1f} us, {:.1f} us more than among others (the baseline {:.1f} us more): its calls gain by "
      "knowing of each other, so the time ranks nothing.",
      alone[kCandidate] * 1e-3, slower[kCandidate] * 1e-3, slower[kBaseline] * 1e-3);
}

}  // namespace fk
