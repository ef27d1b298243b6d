// Sampling at and beyond the ends of its parameters' ranges, on logits the conformance test does not draw, and how
// often tokens come; by every backend's implementations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "core/device_runtime.h"
#include "core/memory.h"
#include "core/rng.h"
#include "ops/registry.h"

namespace fk {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Settings {
  float temperature = 1;
  int32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
};

struct Sampling {
  const ImplementationInfo* implementation;
  Device device;
};
void PrintTo(const Sampling& s, std::ostream* os) { *os << s.implementation->name; }

// Every row has the same logits and settings and a seed of its own.
class SampledRows : public testing::TestWithParam<Sampling> {
 protected:
  void SetUp() override {
    if (std::string why = device_missing(GetParam().device); !why.empty()) GTEST_SKIP() << why;
    BuildOptions only;
    only.only_operator = "sample";
    only.only_implementation = GetParam().implementation->name;
    only.device = GetParam().device;
    tested_ = info_.build(info_.default_init(), only);
    only.only_implementation = "oracle";
    only.device = kCpu;
    oracle_ = info_.build(info_.default_init(), only);
  }

  std::vector<int64_t> draw(const std::vector<float>& logits, const Settings& settings, int64_t rows,
                            bool judge = true) {
    auto V = static_cast<int64_t>(logits.size());
    Tensor x({rows, V}, DType::kF32), temperature({rows}, DType::kF32), top_k({rows}, DType::kI32),
        top_p({rows}, DType::kF32), min_p({rows}, DType::kF32), seeds({rows}, DType::kI64), steps({rows}, DType::kI64),
        out({rows}, DType::kI64), expected({rows}, DType::kI64);
    for (int64_t r = 0; r < rows; ++r) {
      std::copy(logits.begin(), logits.end(), x.ptr<float>() + r * V);
      temperature.ptr<float>()[r] = settings.temperature;
      top_k.ptr<int32_t>()[r] = settings.top_k;
      top_p.ptr<float>()[r] = settings.top_p;
      min_p.ptr<float>()[r] = settings.min_p;
      seeds.ptr<int64_t>()[r] =
          (r % 2 == 0 ? 1 : -1) * (r + 0x123456789abcdef);  // beyond what a double holds, of either sign
      steps.ptr<int64_t>()[r] = r % 3;
    }
    ThreadPool pool(2);
    std::vector<OptView> args{x.view(),     temperature.view(), top_k.view(), top_p.view(),
                              min_p.view(), seeds.view(),       steps.view(), out.view()};
    call_tested(pool, args);
    std::vector<OptView> reference = args;
    reference.back() = expected.view();
    if (judge) {
      Arena arena;
      Context ctx{.pool = pool, .arena = arena};
      oracle_->call(ctx, reference);
      EXPECT_EQ(info_.judge(info_.default_init(), args, reference), "");
    }
    std::vector<int64_t> tokens(out.ptr<int64_t>(), out.ptr<int64_t>() + rows);
    for (int64_t token : tokens) EXPECT_TRUE(token >= 0 && token < V) << token;
    return tokens;
  }

  // Arguments live on the CPU; they go to the device and the tokens come back.
  void call_tested(ThreadPool& pool, const std::vector<OptView>& args) {
    Device device = GetParam().device;
    Arena arena(device);
    Context ctx{.pool = pool, .arena = arena};
    if (device == kCpu) return tested_->call(ctx, args);
    ctx.stream = device_runtime(device).stream();
    std::vector<Tensor> there;
    std::vector<OptView> views;
    for (const OptView& v : args) {
      there.emplace_back(v->spec(), device);
      copy_between(*v, there.back());
      views.push_back(there.back().view());
    }
    tested_->call(ctx, views);
    copy_between(*views.back(), *args.back());
  }

  static std::set<int64_t> distinct(const std::vector<int64_t>& tokens) { return {tokens.begin(), tokens.end()}; }

  static std::vector<float> random_logits(int64_t V, double spread) {
    Stream stream(7, "logits");
    std::vector<float> logits;
    for (int64_t i = 0; i < V; ++i)
      logits.push_back(static_cast<float>(spread * stream.normal(static_cast<uint64_t>(i))));
    return logits;
  }

  const OperatorInfo& info_ = Registry::instance().at("sample");
  std::unique_ptr<Node> tested_, oracle_;
};

TEST_P(SampledRows, TemperatureZeroTakesTheFirstOfTheLargest) {
  std::vector<float> logits = random_logits(3000, 1);
  logits[700] = logits[2900] = 50;
  EXPECT_EQ(distinct(draw(logits, {.temperature = 0}, 5)), std::set<int64_t>{700});
  EXPECT_EQ(distinct(draw({-kInf, -kInf, -4}, {.temperature = 0}, 3)), std::set<int64_t>{2});
}

TEST_P(SampledRows, AVerySmallTemperatureTakesTheLargest) {
  for (float temperature : {1e-4f, 1e-30f, 1e-40f})
    EXPECT_EQ(distinct(draw({1, 3, 2, 2.9f}, {.temperature = temperature}, 20, false)), std::set<int64_t>{1});
}

TEST_P(SampledRows, WithoutFiltersEveryTokenCanBeDrawn) {
  EXPECT_EQ(distinct(draw(std::vector<float>(8, 2.5f), {}, 400)).size(), 8u);
  draw(random_logits(40000, 2), {.temperature = 0.8f}, 10);
}

TEST_P(SampledRows, FiltersAtTheEndsOfTheirRanges) {
  std::vector<float> logits = random_logits(1500, 2);
  auto largest = std::max_element(logits.begin(), logits.end()) - logits.begin();
  EXPECT_EQ(distinct(draw(logits, {.top_k = 1}, 30)), std::set<int64_t>{largest});
  EXPECT_EQ(distinct(draw(logits, {.min_p = 1}, 30)), std::set<int64_t>{largest});
  EXPECT_EQ(distinct(draw(logits, {.top_p = 1e-6f}, 30)), std::set<int64_t>{largest});
  EXPECT_EQ(distinct(draw(logits, {.top_p = 0}, 30)), std::set<int64_t>{largest});
  for (int32_t top_k : {24, 25, 1499, 1500, 1501})
    draw(logits, {.top_k = top_k}, 60);  // around the number of blocks and of tokens
  draw(logits, {.top_p = 0.999999f}, 60);
}

TEST_P(SampledRows, FiltersTogetherApplyInTheOrderOfTheContract) {
  std::vector<float> logits = random_logits(5000, 3);
  for (float min_p : {0.0f, 0.01f, 0.3f})
    for (int32_t top_k : {0, 3, 40, 2000})
      for (float top_p : {0.3f, 0.9f, 1.0f})
        draw(logits, {.temperature = 1.3f, .top_k = top_k, .top_p = top_p, .min_p = min_p}, 24);
}

TEST_P(SampledRows, OfEqualTokensTheFirstAreKept) {
  std::vector<float> flat(40000, -1.0f);
  std::vector<int64_t> by_k = draw(flat, {.top_k = 5}, 40), by_p = draw(flat, {.top_p = 0.25f}, 40);
  EXPECT_EQ(distinct(by_k), (std::set<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_LT(*std::max_element(by_p.begin(), by_p.end()), 10001);
  EXPECT_GT(*std::max_element(by_p.begin(), by_p.end()), 9000);
}

TEST_P(SampledRows, ImpossibleTokensAreNeverDrawn) {
  std::vector<float> logits(200, -kInf);
  logits[3] = 1;
  logits[198] = 1;
  EXPECT_EQ(distinct(draw(logits, {}, 100)), (std::set<int64_t>{3, 198}));
  EXPECT_EQ(distinct(draw(logits, {.top_k = 50, .top_p = 0.99f}, 100)), (std::set<int64_t>{3, 198}));
}

TEST_P(SampledRows, RowsThatAreNoDistributionStillGiveATokenThatExists) {
  for (const std::vector<float>& logits : {std::vector<float>(70, kNaN), std::vector<float>(70, -kInf),
                                           std::vector<float>(70, kInf), std::vector<float>{kNaN, 1, kInf, -kInf, 2}})
    for (const Settings& settings :
         {Settings{}, Settings{.temperature = 0}, Settings{.top_k = 3}, Settings{.top_p = 0.5f},
          Settings{.temperature = -1}, Settings{.temperature = kNaN, .top_k = 2, .top_p = kNaN, .min_p = kNaN},
          Settings{.top_k = -4, .top_p = -1, .min_p = 7}})
      draw(logits, settings, 4, false);
}

// More tokens than are searched at once, with and without a tail that no draw reaches.
TEST_P(SampledRows, LargeVocabularies) {
  for (double spread : {0.3, 4.0}) {
    std::vector<float> logits = random_logits(70001, spread);
    for (const Settings& settings : {Settings{}, Settings{.top_k = 3000}, Settings{.top_p = 0.9f},
                                     Settings{.temperature = 0.7f, .top_k = 50, .top_p = 0.5f, .min_p = 0.001f}})
      draw(logits, settings, 2);
  }
}

// 20,000 draws from four tokens of 0.1, 0.2, 0.3 and 0.4: each within five standard deviations of its share.
TEST_P(SampledRows, TokensComeAsOftenAsTheyAreProbable) {
  constexpr int64_t kDraws = 20000;
  std::vector<float> logits(300, -kInf);
  const std::pair<size_t, double> shares[] = {{0, 0.1}, {17, 0.2}, {256, 0.3}, {299, 0.4}};
  for (auto [token, share] : shares) logits[token] = static_cast<float>(std::log(share));
  std::vector<int64_t> tokens = draw(logits, {}, kDraws, false);
  for (auto [token, share] : shares) {
    auto count = static_cast<double>(std::count(tokens.begin(), tokens.end(), static_cast<int64_t>(token)));
    EXPECT_NEAR(count, kDraws * share, 5 * std::sqrt(kDraws * share * (1 - share))) << token;
  }
}

std::vector<Sampling> implementations() {
  std::vector<Sampling> list;
  for (const ImplementationInfo& i : Registry::instance().at("sample").implementations)
    if (!i.is_oracle) list.push_back({&i, {i.device, 0}});
  return list;
}
INSTANTIATE_TEST_SUITE_P(Backends, SampledRows, testing::ValuesIn(implementations()), [](const auto& p) {
  std::string name(p.param.implementation->name);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

}  // namespace
}  // namespace fk
