// The two 8-bit floats against the tables of the OCP 8-bit floating point specification.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/dtype.h"
#include "core/rng.h"

namespace fk {
namespace {

struct Entry {
  uint8_t pattern;
  float value;
};

template <class T>
T from_bits(uint8_t bits) {
  T x;
  x.bits = bits;
  return x;
}

// Finite magnitudes by pattern, computed from the definition (sign, exponent, mantissa, bias) rather than by our code.
std::vector<double> magnitudes(int mantissa_bits, int bias, uint8_t largest) {
  std::vector<double> values;
  for (int pattern = 0; pattern <= largest; ++pattern) {
    int exponent = pattern >> mantissa_bits;
    double fraction = std::ldexp(pattern & ((1 << mantissa_bits) - 1), -mantissa_bits);
    values.push_back(exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias));
  }
  return values;
}

// The pattern nearest to |x|, ties to even. One entry past the table is the first step that overflows.
uint8_t nearest(const std::vector<double>& values, double overflow_step, double x) {
  double best = std::numeric_limits<double>::infinity();
  size_t at = 0;
  for (size_t i = 0; i <= values.size(); ++i) {
    double distance = std::fabs(std::fabs(x) - (i < values.size() ? values[i] : overflow_step));
    if (distance < best || (distance == best && i % 2 == 0)) {
      best = distance;
      at = i;
    }
  }
  return static_cast<uint8_t>(at);
}

template <class T>
void expect_nearest(const std::vector<double>& values, double overflow_step) {
  auto check = [&](float x) {
    auto sign = static_cast<uint8_t>(std::signbit(x) ? 0x80 : 0);
    ASSERT_EQ(T(x).bits, sign | nearest(values, overflow_step, x)) << x;
  };
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    auto middle = static_cast<float>((values[i] + values[i + 1]) / 2);
    for (float x : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f)}) {
      check(x);
      check(-x);
    }
  }
  Stream random(2, "f8");
  for (uint64_t i = 0; i < 20000; ++i) {
    double exponent =
        -18 + random.uniform(2 * i) * 36;  // from below the smallest subnormal to beyond the largest value
    auto x = static_cast<float>(std::exp2(exponent) * (random.uniform(2 * i + 1) < 0.5 ? -1 : 1));
    if (std::fabs(static_cast<double>(x)) < overflow_step) check(x);
  }
}

TEST(F8E4M3, HasTheValuesOfTheSpecification) {
  for (Entry e : {Entry{0x00, 0.0f},
                  {0x01, 0x1p-9f},
                  {0x07, 0.875f * 0x1p-6f},
                  {0x08, 0x1p-6f},
                  {0x09, 1.125f * 0x1p-6f},
                  {0x38, 1.0f},
                  {0x39, 1.125f},
                  {0x40, 2.0f},
                  {0x77, 240.0f},
                  {0x78, 256.0f},
                  {0x7e, 448.0f},
                  {0xb8, -1.0f},
                  {0xfe, -448.0f},
                  {0x81, -0x1p-9f}}) {
    EXPECT_EQ(static_cast<float>(from_bits<f8e4m3>(e.pattern)), e.value) << int{e.pattern};
    EXPECT_EQ(f8e4m3(e.value).bits, e.pattern) << e.value;
  }
  EXPECT_TRUE(std::signbit(static_cast<float>(from_bits<f8e4m3>(0x80))));
  EXPECT_TRUE(std::isnan(static_cast<float>(from_bits<f8e4m3>(0x7f))));
  EXPECT_TRUE(std::isnan(static_cast<float>(from_bits<f8e4m3>(0xff))));
}

TEST(F8E4M3, EveryPatternRoundTrips) {
  std::vector<double> table = magnitudes(3, 7, 0x7e);
  for (int pattern = 0; pattern < 256; ++pattern) {
    auto bits = static_cast<uint8_t>(pattern);
    auto value = static_cast<float>(from_bits<f8e4m3>(bits));
    EXPECT_EQ(f8e4m3(value).bits, bits);
    if ((bits & 0x7f) != 0x7f) {
      EXPECT_EQ(std::fabs(value), table[bits & 0x7fu]);
    }
  }
}

TEST(F8E4M3, RoundsToNearestEvenAndOverflowsToNaN) {
  expect_nearest<f8e4m3>(magnitudes(3, 7, 0x7e), 480);
  EXPECT_EQ(f8e4m3(464.0f).bits, 0x7e);  // the tie between 448 and the step that is NaN
  for (float x : {std::nextafter(464.0f, 1e9f), 480.0f, 1e30f, std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(f8e4m3(x).bits, 0x7f) << x;
    EXPECT_EQ(f8e4m3(-x).bits, 0xff) << x;
  }
  EXPECT_EQ(f8e4m3(std::numeric_limits<float>::quiet_NaN()).bits & 0x7f, 0x7f);
  EXPECT_EQ(f8e4m3(0x1p-10f).bits, 0);  // half the smallest subnormal: to even
  EXPECT_EQ(f8e4m3(std::nextafter(0x1p-10f, 1.0f)).bits, 1);
}

TEST(F8E5M2, HasTheValuesOfTheSpecification) {
  for (Entry e : {Entry{0x00, 0.0f},
                  {0x01, 0x1p-16f},
                  {0x03, 0.75f * 0x1p-14f},
                  {0x04, 0x1p-14f},
                  {0x05, 1.25f * 0x1p-14f},
                  {0x3c, 1.0f},
                  {0x3d, 1.25f},
                  {0x40, 2.0f},
                  {0x7b, 57344.0f},
                  {0xbc, -1.0f},
                  {0xfb, -57344.0f}}) {
    EXPECT_EQ(static_cast<float>(from_bits<f8e5m2>(e.pattern)), e.value) << int{e.pattern};
    EXPECT_EQ(f8e5m2(e.value).bits, e.pattern) << e.value;
  }
  EXPECT_EQ(static_cast<float>(from_bits<f8e5m2>(0x7c)), std::numeric_limits<float>::infinity());
  EXPECT_EQ(static_cast<float>(from_bits<f8e5m2>(0xfc)), -std::numeric_limits<float>::infinity());
  for (int pattern : {0x7d, 0x7e, 0x7f, 0xfd, 0xfe, 0xff})
    EXPECT_TRUE(std::isnan(static_cast<float>(from_bits<f8e5m2>(static_cast<uint8_t>(pattern))))) << pattern;
}

TEST(F8E5M2, EveryPatternRoundTrips) {
  std::vector<double> table = magnitudes(2, 15, 0x7b);
  for (int pattern = 0; pattern < 256; ++pattern) {
    auto bits = static_cast<uint8_t>(pattern);
    auto value = static_cast<float>(from_bits<f8e5m2>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(f8e5m2(value))));
      continue;
    }
    EXPECT_EQ(f8e5m2(value).bits, bits);
    if (std::isfinite(value)) {
      EXPECT_EQ(std::fabs(value), table[bits & 0x7fu]);
    }
  }
}

TEST(F8E5M2, RoundsToNearestEvenAndOverflowsToInfinity) {
  expect_nearest<f8e5m2>(magnitudes(2, 15, 0x7b), 65536);
  EXPECT_EQ(f8e5m2(std::nextafter(61440.0f, 0.0f)).bits, 0x7b);
  EXPECT_EQ(f8e5m2(61440.0f).bits, 0x7c);  // the tie between 57344 and the step that is infinity goes to even
  EXPECT_EQ(f8e5m2(-1e30f).bits, 0xfc);
  EXPECT_TRUE(std::isnan(static_cast<float>(f8e5m2(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_EQ(f8e5m2(0x1p-17f).bits, 0);
  EXPECT_EQ(f8e5m2(std::nextafter(0x1p-17f, 1.0f)).bits, 1);
}

}  // namespace
}  // namespace fk
