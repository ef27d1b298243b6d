// Order statistics and moments over a sorted copy.
#include "measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <vector>

#include "core/check.h"
#include "core/error.h"

namespace fk {
namespace {

std::vector<double> sorted(std::span<const double> samples) {
  if (samples.empty()) throw Error("there are no samples to summarize; take at least one");
  for (double x : samples)
    if (!std::isfinite(x)) throw Error("a sample is {}, which no statistic can use; check how it was measured", x);
  std::vector<double> ordered(samples.begin(), samples.end());
  std::sort(ordered.begin(), ordered.end());
  return ordered;
}

double quantile_of_sorted(const std::vector<double>& ordered, double q) {
  FK_CHECK(q >= 0 && q <= 1);
  size_t n = ordered.size();
  double rank = q * static_cast<double>(n);
  double whole = std::round(rank);
  // q * n is computed in binary: 0.7 * 10 must count as 7.
  bool exact = std::abs(rank - whole) <= 1e-9 * static_cast<double>(n);
  if (!exact) return ordered[static_cast<size_t>(std::ceil(rank)) - 1];
  size_t below = static_cast<size_t>(whole);
  if (below == 0) return ordered.front();
  if (below == n) return ordered.back();
  return std::midpoint(ordered[below - 1], ordered[below]);
}

// The probability of at most `t` standard errors, on both sides: Abramowitz and Stegun 26.7.3 and 26.7.4.
double student_probability(double t, size_t degrees) {
  const double angle = std::atan(t / std::sqrt(static_cast<double>(degrees)));
  const double square = std::cos(angle) * std::cos(angle);
  const bool odd = degrees % 2 == 1;
  double term = odd ? std::cos(angle) : 1, sum = degrees == 1 ? 0 : term;
  for (size_t i = odd ? 3 : 2; i + 1 < degrees; i += 2) {
    term *= square * static_cast<double>(i - 1) / static_cast<double>(i);
    sum += term;
  }
  return odd ? 2 / std::numbers::pi * (angle + std::sin(angle) * sum) : std::sin(angle) * sum;
}

}  // namespace

double student_width(double confidence, size_t degrees) {
  FK_CHECK(confidence > 0 && confidence < 1 && degrees > 0);
  double low = 0, high = 1;
  while (student_probability(high, degrees) < confidence) high *= 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (student_probability(middle, degrees) < confidence ? low : high) = middle;
  }
  return high;
}

double quantile(std::span<const double> samples, double q) { return quantile_of_sorted(sorted(samples), q); }

double median(std::span<const double> samples) { return quantile(samples, 0.5); }

Summary summarize(std::span<const double> samples) {
  std::vector<double> ordered = sorted(samples);
  Summary s;
  s.count = ordered.size();
  double n = static_cast<double>(s.count);
  for (double x : ordered) s.mean += x / n;
  double squares = 0;
  for (double x : ordered) squares += (x - s.mean) * (x - s.mean);
  if (s.count > 1) s.deviation = std::sqrt(squares / (n - 1));
  if (s.deviation > 0) {
    s.variation = s.mean == 0 ? std::numeric_limits<double>::infinity() : s.deviation / std::abs(s.mean);
  }
  s.min = ordered.front();
  s.q1 = quantile_of_sorted(ordered, 0.25);
  s.median = quantile_of_sorted(ordered, 0.5);
  s.q3 = quantile_of_sorted(ordered, 0.75);
  s.p95 = quantile_of_sorted(ordered, 0.95);
  s.max = ordered.back();
  return s;
}

}  // namespace fk
