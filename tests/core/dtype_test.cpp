// Names, sizes and the bit-exact conversions of bf16 and f16, against the compiler's own half and exact arithmetic.
#include "core/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/rng.h"

namespace fk {
namespace {

#if defined(__aarch64__)
using CompilerHalf = __fp16;
#else
using CompilerHalf = _Float16;
#endif

uint16_t compiler_half_bits(float x) { return std::bit_cast<uint16_t>(static_cast<CompilerHalf>(x)); }

// Nearest bf16, ties to the even pattern, decided by exact distances in double. The pattern after the largest finite
// one stands for 2^128 there, which is where rounding to infinity begins.
uint16_t nearest_bf16_bits(float x) {
  auto value = [](uint16_t pattern) {
    uint32_t exponent = (pattern >> 7) & 0xffu;
    double fraction = pattern & 0x7fu;
    double magnitude =
        exponent == 0 ? std::ldexp(fraction, -133) : std::ldexp(fraction + 128, static_cast<int>(exponent) - 134);
    return magnitude;
  };
  auto bits = std::bit_cast<uint32_t>(x);
  auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  auto low = static_cast<uint16_t>((bits >> 16) & 0x7fffu);
  if (low == 0x7f80) return sign | low;
  auto high = static_cast<uint16_t>(low + 1);
  double magnitude = std::fabs(static_cast<double>(x));
  double below = magnitude - value(low), above = value(high) - magnitude;
  bool up = above < below || (above == below && (low & 1));
  return sign | (up ? high : low);
}

// Calls f on the floats where rounding to a 16-bit type can go wrong: every representable value, the midpoint to its
// neighbour, both sides of each, and a million patterns at random.
template <class Narrow, class F>
void for_each_hard_float(F f) {
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    Narrow narrow, next;
    narrow.bits = static_cast<uint16_t>(pattern);
    next.bits = static_cast<uint16_t>(pattern + 1);
    float value = static_cast<float>(narrow);
    float middle = static_cast<float>((static_cast<double>(value) + static_cast<double>(static_cast<float>(next))) / 2);
    for (float x : {value, middle}) {
      if (std::isnan(x)) continue;
      f(x);
      f(std::nextafter(x, -std::numeric_limits<float>::infinity()));
      f(std::nextafter(x, std::numeric_limits<float>::infinity()));
    }
  }
  Stream random(1, "hard floats");
  for (uint64_t i = 0; i < 1'000'000; ++i) {
    float x = std::bit_cast<float>(random.u32(i));
    if (!std::isnan(x)) f(x);
  }
}

TEST(DType, NamesRoundTripAndForeignSpellingsAreKnown) {
  for (DType t : kAllDTypes) EXPECT_EQ(dtype_from_name(dtype_name(t)), t);
  EXPECT_EQ(dtype_from_name("bfloat16"), DType::kBF16);
  EXPECT_EQ(dtype_from_name("BF16"), DType::kBF16);
  EXPECT_EQ(dtype_from_name("float8_e4m3fn"), DType::kF8E4M3);
  EXPECT_EQ(dtype_from_name("F8_E5M2"), DType::kF8E5M2);
  EXPECT_EQ(dtype_from_name("I64"), DType::kI64);
  EXPECT_EQ(dtype_from_name("float12"), std::nullopt);
  EXPECT_EQ(dtype_from_name(""), std::nullopt);
}

TEST(DType, SizesAreThoseOfTheCppTypes) {
  EXPECT_EQ(dtype_size(dtype_of<double>), sizeof(double));
  EXPECT_EQ(dtype_size(dtype_of<float>), sizeof(float));
  EXPECT_EQ(dtype_size(dtype_of<f16>), sizeof(f16));
  EXPECT_EQ(dtype_size(dtype_of<bf16>), sizeof(bf16));
  EXPECT_EQ(dtype_size(dtype_of<f8e4m3>), sizeof(f8e4m3));
  EXPECT_EQ(dtype_size(dtype_of<f8e5m2>), sizeof(f8e5m2));
  EXPECT_EQ(dtype_size(dtype_of<int8_t>), sizeof(int8_t));
  EXPECT_EQ(dtype_size(dtype_of<uint8_t>), sizeof(uint8_t));
  EXPECT_EQ(dtype_size(dtype_of<int32_t>), sizeof(int32_t));
  EXPECT_EQ(dtype_size(dtype_of<int64_t>), sizeof(int64_t));
  EXPECT_EQ(dtype_size(dtype_of<bool>), sizeof(bool));
}

TEST(DType, EpsilonIsTheStepAfterOne) {
  for (DType t : kAllDTypes) {
    if (!dtype_is_float(t)) {
      EXPECT_EQ(dtype_epsilon(t), 0) << dtype_name(t);
      continue;
    }
    std::byte element[8];
    double epsilon = dtype_epsilon(t);
    store_element(element, t, 1 + epsilon);
    EXPECT_EQ(load_element(element, t), 1 + epsilon) << dtype_name(t);
    store_element(element, t, 1 + epsilon / 4);
    EXPECT_EQ(load_element(element, t), 1) << dtype_name(t);
  }
}

TEST(BF16, EveryPatternRoundTrips) {
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    bf16 x;
    x.bits = static_cast<uint16_t>(pattern);
    auto value = static_cast<float>(x);
    EXPECT_EQ(std::bit_cast<uint32_t>(value), pattern << 16);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(bf16(value))));
    } else {
      ASSERT_EQ(bf16(value).bits, pattern);
    }
  }
}

TEST(BF16, RoundsToNearestEven) {
  for_each_hard_float<bf16>([](float x) { ASSERT_EQ(bf16(x).bits, nearest_bf16_bits(x)) << x; });
}

TEST(BF16, NaNNeverBecomesInfinity) {
  for (uint32_t pattern : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu, 0x7fc00000u}) {
    auto x = std::bit_cast<float>(pattern);
    auto narrow = static_cast<float>(bf16(x));
    EXPECT_TRUE(std::isnan(narrow)) << pattern;
    EXPECT_EQ(std::signbit(narrow), std::signbit(x)) << pattern;
  }
}

TEST(F16, EveryPatternEqualsTheCompilersHalf) {
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    f16 x;
    x.bits = static_cast<uint16_t>(pattern);
    auto value = static_cast<float>(x);
    auto expected = static_cast<float>(std::bit_cast<CompilerHalf>(x.bits));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_TRUE(std::isnan(static_cast<float>(f16(value))));
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(expected)) << pattern;
      ASSERT_EQ(f16(value).bits, pattern);
    }
  }
}

TEST(F16, RoundsLikeTheCompilersHalf) {
  for_each_hard_float<f16>([](float x) { ASSERT_EQ(f16(x).bits, compiler_half_bits(x)) << x; });
}

TEST(Elements, AreReadAndWrittenAsDoubleInEveryDType) {
  for (DType t : kAllDTypes) {
    std::byte element[8];
    for (double value : {0.0, 1.0}) {
      store_element(element, t, value);
      EXPECT_EQ(load_element(element, t), value) << dtype_name(t);
    }
  }
  std::byte element[8];
  store_element(element, DType::kI64, 0x1p52);
  EXPECT_EQ(load_element(element, DType::kI64), 0x1p52);
  store_element(element, DType::kI8, -128);
  EXPECT_EQ(load_element(element, DType::kI8), -128);
  store_element(element, DType::kBool, 0.5);
  EXPECT_EQ(load_element(element, DType::kBool), 1);
  store_element(element, DType::kF64, 0.1);
  EXPECT_EQ(load_element(element, DType::kF64), 0.1);
}

// Rounding to float first and to the narrow type after would land on the midpoint and then go to even: 1, not 1 + step.
TEST(Elements, AreRoundedOnce) {
  for (DType t : {DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2}) {
    std::byte element[8];
    double step = dtype_epsilon(t);
    for (double sign : {1.0, -1.0}) {
      store_element(element, t, sign * (1 + step / 2 + 0x1p-40));
      EXPECT_EQ(load_element(element, t), sign * (1 + step)) << dtype_name(t);
      store_element(element, t, sign * (1 + 1.5 * step - 0x1p-40));
      EXPECT_EQ(load_element(element, t), sign * (1 + step)) << dtype_name(t);
      store_element(element, t, sign * (1 + step / 2));
      EXPECT_EQ(load_element(element, t), sign) << dtype_name(t);
      store_element(element, t, sign * 1e-300);
      EXPECT_EQ(load_element(element, t), 0) << dtype_name(t);
    }
  }
  std::byte element[8];
  store_element(element, DType::kBF16, 1e300);
  EXPECT_EQ(load_element(element, DType::kBF16), std::numeric_limits<double>::infinity());
  store_element(element, DType::kBF16, std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(std::isnan(load_element(element, DType::kBF16)));
}

}  // namespace
}  // namespace fk
