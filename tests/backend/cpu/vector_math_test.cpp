// The vectorisable elementary functions against double, over the whole range of float, compiled both ways they are
// used: for the base instruction set and as the clone this machine picks.
#include "backend/cpu/vector_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace fk {
namespace {

void exp_plain(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = vexp(x[i]);
}
FK_SIMD_CLONES void exp_cloned(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = vexp(x[i]);
}
void cdf_plain(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = normal_cdf(x[i]);
}
FK_SIMD_CLONES void cdf_cloned(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = normal_cdf(x[i]);
}
void sin_cos_plain(const double* x, SinCos* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = sin_cos(x[i]);
}
FK_SIMD_CLONES void sin_cos_cloned(const double* x, SinCos* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = sin_cos(x[i]);
}

// One float in a thousand, of all bit patterns; a prime step meets every mantissa pattern.
std::vector<float> floats_of_all_sizes() {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 1009)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  return x;
}

double ulp(double value) {
  auto f = static_cast<float>(std::abs(value));
  return static_cast<double>(std::nextafter(f, std::numeric_limits<float>::infinity())) - static_cast<double>(f);
}

TEST(VectorMath, ExpIsWithinOneUlpAndAFifth) {
  std::vector<float> x = floats_of_all_sizes();
  for (float f = -90; f < 90; f += 0.0037f) x.push_back(f);
  std::vector<float> y(x.size());
  for (auto* function : {&exp_plain, &exp_cloned}) {
    function(x.data(), y.data(), static_cast<int64_t>(x.size()));
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      double expected = std::exp(static_cast<double>(x[i]));
      if (std::isnan(x[i])) {
        ASSERT_TRUE(std::isnan(y[i]));
      } else if (expected < static_cast<double>(std::numeric_limits<float>::min())) {
        ASSERT_EQ(y[i], 0) << x[i];
      } else if (expected > static_cast<double>(std::numeric_limits<float>::max())) {
        ASSERT_EQ(y[i], std::numeric_limits<float>::infinity()) << x[i];
      } else {
        ASSERT_TRUE(std::isfinite(y[i])) << x[i];
        worst = std::max(worst, std::abs(static_cast<double>(y[i]) - expected) / ulp(expected));
      }
    }
    EXPECT_LE(worst, 1.2);
  }
}

TEST(VectorMath, ExpAtItsEnds) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(vexp(0.0f), 1.0f);
  EXPECT_EQ(vexp(-0.0f), 1.0f);
  EXPECT_EQ(vexp(-kInf), 0.0f);
  EXPECT_EQ(vexp(kInf), kInf);
  EXPECT_TRUE(std::isnan(vexp(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isfinite(vexp(88.72283f)));
  EXPECT_EQ(vexp(88.72284f), kInf);
  EXPECT_GT(vexp(-87.33654f), 0.0f);
  EXPECT_EQ(vexp(-87.33655f), 0.0f);
}

TEST(VectorMath, NormalCdfIsRightInBothTails) {
  std::vector<float> x = floats_of_all_sizes();
  for (float f = -13; f < 13; f += 0.00071f) x.push_back(f);
  std::vector<float> y(x.size());
  for (auto* function : {&cdf_plain, &cdf_cloned}) {
    function(x.data(), y.data(), static_cast<int64_t>(x.size()));
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      auto v = static_cast<double>(x[i]);
      double expected = 0.5 * std::erfc(-v / std::numbers::sqrt2);
      if (std::isnan(x[i])) {
        ASSERT_TRUE(std::isnan(y[i]));
      } else if (expected < 1e-37) {
        ASSERT_LT(y[i], 2e-37f) << x[i];
        ASSERT_GE(y[i], 0) << x[i];
      } else {
        // Three and a half ulp, and what half a rounding of x^2/2 does to e^-(x^2/2).
        double allowed = (7 + v * v / 2) * 0x1p-24 * expected;
        worst = std::max(worst, std::abs(static_cast<double>(y[i]) - expected) / allowed);
      }
    }
    EXPECT_LE(worst, 1);
  }
}

TEST(VectorMath, SinAndCosAreRightForEveryPositionAModelHas) {
  std::vector<double> x;
  for (int position = -131072; position <= 131072; position += 7) {
    x.push_back(position);
    x.push_back(position * 0.7493219);
    x.push_back(position * 1e-5);
  }
  for (int quarter = -2000; quarter < 2000; ++quarter) {  // around the seams of the reduction
    x.push_back(quarter * std::numbers::pi / 4);
    x.push_back(std::nextafter(x.back(), 1e9));
  }
  std::vector<SinCos> y(x.size());
  for (auto* function : {&sin_cos_plain, &sin_cos_cloned}) {
    function(x.data(), y.data(), static_cast<int64_t>(x.size()));
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      worst = std::max(worst, std::abs(static_cast<double>(y[i].sin) - std::sin(x[i])));
      worst = std::max(worst, std::abs(static_cast<double>(y[i].cos) - std::cos(x[i])));
    }
    EXPECT_LE(worst, 1e-7);
  }
}

TEST(OrderKey, OrdersFloatsAsNumbers) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
  const float rising[] = {-kInf, -3e38f, -1, -1e-40f, 0, 1e-45f, 2, 3e38f, kInf};
  for (size_t i = 1; i < std::size(rising); ++i) {
    EXPECT_LT(order_key(rising[i - 1]), order_key(rising[i]));
    EXPECT_EQ(from_order_key(order_key(rising[i])), rising[i]);
  }
  EXPECT_EQ(order_key(-0.0f), order_key(0.0f));
  EXPECT_EQ(order_key(-kInf), kMinusInfinity);
  EXPECT_EQ(order_key(kNaN), kAboveInfinity);
  EXPECT_EQ(order_key(-kNaN), kAboveInfinity);
  EXPECT_EQ(order_key(-kNaN, kMinusInfinity), kMinusInfinity);
}

TEST(Store, RoundsBf16AsTheTypeDoes) {
  for (float x : floats_of_all_sizes()) {
    // Of NaN, those that bf16 holds, quiet as arithmetic leaves them.
    if (std::isnan(x)) x = std::bit_cast<float>((std::bit_cast<uint32_t>(x) & 0xffff0000u) | 0x400000u);
    bf16 stored;
    store(stored, x);
    ASSERT_EQ(stored.bits, bf16(x).bits) << x;
  }
}

}  // namespace
}  // namespace fk
