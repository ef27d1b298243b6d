#include "measure/launch_spread.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "measure/statistics.h"

namespace fk {
namespace {

// The variance of the median of one launch's rounds, as for normal numbers, from the quartiles of all rounds around their
// launch's median: tails do not count.
double variance_within(std::span<const std::vector<double>> launches, std::span<const double> medians) {
  constexpr double kQuartilesInSds = 1.349;
  std::vector<double> around;
  for (size_t l = 0; l < launches.size(); ++l)
    for (double round : launches[l]) around.push_back(round - medians[l]);
  const double sd = (quantile(around, 0.75) - quantile(around, 0.25)) / kQuartilesInSds;
  return std::numbers::pi / 2 * sd * sd * static_cast<double>(launches.size()) / static_cast<double>(around.size());
}

}  // namespace

double half_width_of_launches(std::vector<std::vector<double>> launches, double confidence) {
  std::erase_if(launches, [](const auto& rounds) { return rounds.size() < kRoundsOfALaunch; });
  if (launches.size() < 2) return 0;
  std::vector<double> medians;
  size_t rounds = 0;
  for (const std::vector<double>& launch : launches) {
    rounds += launch.size();
    medians.push_back(median(launch));
  }
  const double spread = std::pow(summarize(medians).deviation, 2), within = variance_within(launches, medians);
  const double of_launches = student_width(confidence, launches.size() - 1);
  const double of_rounds = student_width(confidence, rounds - launches.size());
  const double between = std::max(0.0, spread - within);
  return std::sqrt((of_launches * of_launches * between + of_rounds * of_rounds * within) /
                   static_cast<double>(launches.size()));
}

}  // namespace fk
