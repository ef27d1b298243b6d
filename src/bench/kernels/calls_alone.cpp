#include "bench/kernels/calls_alone.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "measure/statistics.h"

namespace fk {
namespace {
constexpr size_t kBaseline = 0, kCandidate = 1, kControl = 2;

}  // namespace

CallsAlone::OfSides CallsAlone::alone_ns() const {
  OfSides of_sides{};
  for (size_t side = 0; side < kSides && !empty(); ++side) {
    std::vector<double> values;
    for (const OfSides& launch : alone_) values.push_back(launch[side]);
    of_sides[side] = median(values);
  }
  return of_sides;
}

std::string CallsAlone::objection(double baseline_ns, double candidate_ns, int threads) const {
  if (empty()) return {};
  OfSides alone = alone_ns();
  double gain = baseline_ns - candidate_ns,
         gain_alone = std::min(alone[kBaseline], alone[kControl]) - alone[kCandidate];
  const double missing = gain - gain_alone;
  const double allowed = 1e3 + 0.1 * alone[kCandidate] + 2 * std::abs(alone[kBaseline] - alone[kControl]);
  if (missing <= allowed) return {};
  // With threads, the time alone includes waking them, and thread pools wait in different ways. That explains a part of
  // the gain only: for short calls it is more than the whole call, and a candidate that gains nothing alone may as well
  // have divided the calls of a batch among its threads.
  constexpr double kWaking = 4e3;
  if (threads > 1 && missing <= allowed + kWaking && gain_alone >= gain / 2) return {};
  return fmt::format(
      "In a batch a call takes {:.1f} us and the baseline's {:.1f} us, alone {:.1f} and {:.1f} us: its calls are "
      "faster only in a batch, so the time is not ranked.",
      candidate_ns * 1e-3, baseline_ns * 1e-3, alone[kCandidate] * 1e-3, alone[kBaseline] * 1e-3);
}

}  // namespace fk
