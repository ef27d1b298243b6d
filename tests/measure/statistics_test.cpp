// Summaries compared with values computed by hand and with the definitions applied by brute force.
#include "measure/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <tuple>
#include <vector>

#include "core/error.h"
#include "core/rng.h"

namespace fk {
namespace {

TEST(Statistics, HandComputed) {
  // Sorted: 2 4 4 4 5 5 7 9. Mean 5, squares 32, deviation sqrt(32 / 7).
  std::vector<double> samples = {9, 2, 4, 5, 4, 7, 4, 5};
  Summary s = summarize(samples);
  EXPECT_EQ(s.count, 8u);
  EXPECT_DOUBLE_EQ(s.mean, 5);
  EXPECT_DOUBLE_EQ(s.deviation, std::sqrt(32.0 / 7));
  EXPECT_DOUBLE_EQ(s.variation, std::sqrt(32.0 / 7) / 5);
  EXPECT_EQ(s.min, 2);
  EXPECT_EQ(s.q1, 4);        // 2 of 8 are exactly a quarter: between the 2nd and the 3rd
  EXPECT_EQ(s.median, 4.5);  // between the 4th and the 5th
  EXPECT_EQ(s.q3, 6);        // between the 6th and the 7th
  EXPECT_EQ(s.p95, 9);       // 7.6 of 8: the 8th
  EXPECT_EQ(s.max, 9);
}

TEST(Statistics, OddCountTakesTheMiddleOne) {
  EXPECT_EQ(median(std::vector<double>{3, 1, 2}), 2);
  EXPECT_EQ(median(std::vector<double>{5}), 5);
}

TEST(Statistics, ShareThatBinaryCannotHoldIsStillExact) {
  std::vector<double> samples = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  EXPECT_EQ(quantile(samples, 0.7), 7.5);  // 0.7 * 10 is 7.000000000000001 or 6.999999999999999 in some orders
  EXPECT_EQ(quantile(samples, 0.3), 3.5);
  EXPECT_EQ(quantile(samples, 0), 1);
  EXPECT_EQ(quantile(samples, 1), 10);
}

// The definition: the smallest sample with at least q * n samples at or below it, averaged with the smallest one that
// has more than q * n.
double quantile_by_counting(const std::vector<double>& samples, size_t share, size_t shares) {
  double lower = std::numeric_limits<double>::infinity(), upper = lower;
  for (double x : samples) {
    size_t count = static_cast<size_t>(std::count_if(samples.begin(), samples.end(), [x](double y) { return y <= x; }));
    if (count * shares >= share * samples.size()) lower = std::min(lower, x);
    if (count * shares > share * samples.size()) upper = std::min(upper, x);
  }
  return std::isfinite(upper) ? (lower + upper) / 2 : lower;
}

TEST(Statistics, AgreesWithTheDefinitionsOnRandomSamples) {
  Stream stream(7, "samples");
  for (size_t n = 1; n <= 60; ++n) {
    std::vector<double> samples;
    for (size_t i = 0; i < n; ++i) samples.push_back(static_cast<double>(stream.below(n * 100 + i, 20)) - 5);  // ties
    Summary s = summarize(samples);
    EXPECT_DOUBLE_EQ(s.q1, quantile_by_counting(samples, 25, 100)) << n;
    EXPECT_DOUBLE_EQ(s.median, quantile_by_counting(samples, 50, 100)) << n;
    EXPECT_DOUBLE_EQ(s.q3, quantile_by_counting(samples, 75, 100)) << n;
    EXPECT_DOUBLE_EQ(s.p95, quantile_by_counting(samples, 95, 100)) << n;
    // Welford's recurrence, in the order of the samples.
    long double mean = 0, squares = 0;
    for (size_t i = 0; i < n; ++i) {
      long double delta = samples[i] - mean;
      mean += delta / static_cast<long double>(i + 1);
      squares += delta * (samples[i] - mean);
    }
    EXPECT_NEAR(s.mean, static_cast<double>(mean), 1e-12);
    double deviation = n > 1 ? static_cast<double>(std::sqrt(squares / static_cast<long double>(n - 1))) : 0;
    EXPECT_NEAR(s.deviation, deviation, 1e-12);
  }
}

TEST(Statistics, VariationOfSamplesAroundZeroIsInfinite) {
  EXPECT_TRUE(std::isinf(summarize(std::vector<double>{-1, 1}).variation));
  EXPECT_EQ(summarize(std::vector<double>{0, 0}).variation, 0);
}

// Of printed tables.
TEST(Statistics, StudentWidths) {
  for (auto [confidence, degrees, width] : std::initializer_list<std::tuple<double, size_t, double>>{
           {0.99, 1, 63.657}, {0.99, 2, 9.925}, {0.99, 3, 5.841}, {0.99, 4, 4.604}, {0.99, 5, 4.032}, {0.99, 30, 2.750},
           {0.99, 100000, 2.576}, {0.95, 10, 2.228}, {0.95, 3, 3.182}, {0.5, 1, 1.000}, {0.5, 4, 0.741}})
    EXPECT_NEAR(student_width(confidence, degrees), width, 6e-4) << confidence << ", " << degrees;
}

TEST(Statistics, RefusesWhatMeansNothing) {
  EXPECT_THROW(summarize({}), Error);
  EXPECT_THROW(median({}), Error);
  for (double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    EXPECT_THROW(summarize(std::vector<double>{1, bad, 2}), Error);
    EXPECT_THROW(quantile(std::vector<double>{bad}, 0.5), Error);
  }
}

}  // namespace
}  // namespace fk
