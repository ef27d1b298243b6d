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
  // With threads, the time includes waking them, and thread pools wait in different ways.
  double allowed =
      (threads > 1 ? 5e3 : 1e3) + 0.1 * alone[kCandidate] + 2 * std::abs(alone[kBaseline] - alone[kControl]);
  if (gain - gain_alone <= allowed) return {};
  return fmt::format(
      "In a batch a call takes {:.1f} us and the baseline's {:.1f} us, alone {:.1f} and {:.1f} us: its calls are "
      "faster only in a batch, so the time is not ranked.",
      candidate_ns * 1e-3, baseline_ns * 1e-3, alone[kCandidate] * 1e-3, alone[kBaseline] * 1e-3);
}

}  // namespace fk
