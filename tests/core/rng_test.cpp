// Philox4x32-10 against the known-answer vectors of Random123, its streams against those the Python tool exported
// (tests/golden/data/philox.json), and the distributions built on it.
#include "core/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <vector>

#include "core/json.h"
#include "core/normals.h"

namespace fk {
namespace {

TEST(Philox, GivesThePublishedVectors) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, 0), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffffffffffff),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0'a4093822),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Stream, IsThePhiloxOfItsKeyAtTheIndex) {
  Stream s(uint64_t{0x0123456789abcdef});
  EXPECT_EQ(s.block(0x1'0000'0007), philox4x32({7, 1, 0, 0}, 0x0123456789abcdef));
  for (uint64_t i : {0, 1, 2, 3, 4, 5, 103}) EXPECT_EQ(s.u32(i), s.block(i / 4)[i % 4]);
}

// FNV-1a's published value for "foobar"; seed 0 leaves its offset basis as it is.
TEST(Stream, KeyIsFnv1aOfTheName) {
  EXPECT_EQ(stream_key(0, "foobar"), 0x85944171f73967e8u);
  EXPECT_EQ(stream_key(0, ""), 0xcbf29ce484222325u);
  EXPECT_NE(stream_key(1, "a"), stream_key(2, "a"));
  EXPECT_NE(stream_key(1, "a"), stream_key(1, "b"));
  EXPECT_EQ(Stream(5, "x").u32(9), Stream(stream_key(5, "x")).u32(9));
}

TEST(Stream, IsTheStreamOfThePythonTool) {
  Json exported = parse_json_file(FK_SOURCE_DIR "/tests/golden/data/philox.json");
  ASSERT_FALSE(exported["streams"].empty());
  for (const Json& e : exported["streams"]) {
    Stream s(std::stoull(e["seed"].get<std::string>(), nullptr, 16), e["name"].get<std::string>());
    EXPECT_EQ(s.key(), std::stoull(e["key"].get<std::string>(), nullptr, 16)) << e["name"];
    for (size_t i = 0; i < e["blocks"].size(); ++i)
      EXPECT_EQ(s.block(e["block_index"][i].get<uint64_t>()), e["blocks"][i].get<PhiloxBlock>()) << e["name"];
    for (size_t i = 0; i < e["uniform"].size(); ++i) {
      EXPECT_EQ(s.uniform(i), e["uniform"][i].get<double>());
      EXPECT_EQ(s.below(i, 1000), e["below_1000"][i].get<uint64_t>());
      // log and cos may differ in the last bit between libraries.
      EXPECT_NEAR(s.normal(i), e["normal"][i].get<double>(), 1e-14);
    }
  }
}

// Bounds are five standard errors of the estimate for n samples.
TEST(Stream, UniformHasTheMomentsOfTheUniform) {
  Stream s(7, "uniform");
  constexpr int n = 200'000;
  double sum = 0, squares = 0, lag = 0, smallest = 1, largest = 0;
  for (uint64_t i = 0; i < n; ++i) {
    double u = s.uniform(i);
    sum += u;
    squares += (u - 0.5) * (u - 0.5);
    lag += (u - 0.5) * (s.uniform(i + 1) - 0.5);
    smallest = std::min(smallest, u);
    largest = std::max(largest, u);
  }
  EXPECT_NEAR(sum / n, 0.5, 5 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(squares / n, 1.0 / 12, 5 * std::sqrt(1.0 / 180 / n));
  EXPECT_NEAR(lag / n, 0, 5 * (1.0 / 12) / std::sqrt(n));
  EXPECT_GT(smallest, 0);
  EXPECT_LT(largest, 1);
}

// Our own logarithm and cosine, at all sizes of u and in all quarters of a turn.
TEST(Stream, NormalIsBoxMullerOfItsBlock) {
  Stream s(11, "normal");
  for (uint64_t i = 0; i < 100'000; ++i) {
    PhiloxBlock b = s.block(i);
    double u = (b[0] + 0.5) * 0x1p-32, v = (b[1] + 0.5) * 0x1p-32;
    ASSERT_NEAR(s.normal(i), std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v), 1e-14) << i;
  }
}

TEST(Stream, ManyNormalsAreThoseOfTheirIndices) {
  Stream s(12, "normal");
  for (uint64_t first : {uint64_t{0}, uint64_t{3}, uint64_t{0xffff'ffe0}})
    for (size_t n : {0, 1, 2, 63, 64, 65, 200}) {
      std::vector<double> out(n + 1, -99);
      fill_normals(s, first, std::span(out).first(n));
      for (size_t i = 0; i < n; ++i) EXPECT_EQ(out[i], s.normal(first + i)) << first << " " << i;
      EXPECT_EQ(out[n], -99);
    }
}

TEST(Stream, NormalHasTheMomentsOfTheNormal) {
  Stream s(7, "normal");
  constexpr int n = 200'000;
  double moment[5] = {};
  int beyond_two = 0;
  for (uint64_t i = 0; i < n; ++i) {
    double x = s.normal(i);
    ASSERT_TRUE(std::isfinite(x));
    for (int p = 1; p <= 4; ++p) moment[p] += std::pow(x, p) / n;
    beyond_two += std::fabs(x) > 2;
  }
  EXPECT_NEAR(moment[1], 0, 5 / std::sqrt(n));
  EXPECT_NEAR(moment[2], 1, 5 * std::sqrt(2.0 / n));
  EXPECT_NEAR(moment[3], 0, 5 * std::sqrt(15.0 / n));
  EXPECT_NEAR(moment[4], 3, 5 * std::sqrt(96.0 / n));
  EXPECT_NEAR(beyond_two / static_cast<double>(n), 0.0455, 5 * std::sqrt(0.0455 / n));
}

TEST(Stream, BelowCoversItsRangeEvenly) {
  Stream s(7, "below");
  constexpr uint64_t n = 10, draws = 100'000;
  std::vector<int> count(n, 0);
  for (uint64_t i = 0; i < draws; ++i) {
    uint64_t x = s.below(i, n);
    ASSERT_LT(x, n);
    ++count[x];
  }
  for (int c : count) EXPECT_NEAR(c, draws / n, 5 * std::sqrt(draws / n));
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(s.below(i, 1), 0u);
    EXPECT_LT(s.below(i, 3), 3u);
    EXPECT_LT(s.below(i, uint64_t{1} << 40), uint64_t{1} << 40);
  }
}

}  // namespace
}  // namespace fk
