// Made-up routing: exactly as many experts as costs count, no token with one expert twice, loads of real routers; and
// what the judges of topk_softmax and grouped_topk accept.
#include "ops/routing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "ops/l1/grouped_topk.h"
#include "ops/l1/moe_grouped_gemm.h"
#include "ops/l1/topk_softmax.h"
#include "ops/materialize.h"

namespace fk {
namespace {

struct Size {
  int64_t experts, top_k, tokens;
};
constexpr Size kSizes[] = {{1, 1, 1},   {8, 2, 1},   {8, 2, 40},    {7, 7, 3},
                           {128, 8, 1}, {128, 8, 5}, {128, 8, 700}, {60, 4, 33}};

std::vector<int32_t> tokens_of_each(const Routing& routing) {
  std::vector<int32_t> counts;
  for (size_t e = 0; e + 1 < routing.offsets.size(); ++e) counts.push_back(routing.offsets[e + 1] - routing.offsets[e]);
  return counts;
}

TEST(Routing, IsValidForEverySizeSkewAndSeed) {
  for (const Size& s : kSizes)
    for (double skew : {0.0, kSkewed, 4.0, 100.0})
      for (uint64_t seed : {1, 2}) {
        Routing r = make_routing(s.experts, s.top_k, s.tokens, skew, seed);
        for (int64_t t = 0; t < s.tokens; ++t) {
          auto row = r.topk_ids.begin() + t * s.top_k;
          EXPECT_EQ(std::set<int32_t>(row, row + s.top_k).size(), static_cast<size_t>(s.top_k));
          EXPECT_TRUE(std::all_of(row, row + s.top_k, [&](int32_t id) { return id >= 0 && id < s.experts; }));
        }
        std::vector<int32_t> counts = tokens_of_each(r);
        EXPECT_EQ(std::count_if(counts.begin(), counts.end(), [](int32_t n) { return n > 0; }),
                  experts_touched(s.experts, s.top_k, s.tokens));
        for (size_t e = 0; e < counts.size(); ++e)
          for (int32_t i = r.offsets[e]; i < r.offsets[e + 1]; ++i) {
            EXPECT_EQ(r.topk_ids[static_cast<size_t>(r.sorted_ids[static_cast<size_t>(i)])], static_cast<int32_t>(e));
            if (i > r.offsets[e]) {
              EXPECT_GT(r.sorted_ids[static_cast<size_t>(i)], r.sorted_ids[static_cast<size_t>(i) - 1]);
            }
          }
      }
  EXPECT_TRUE(make_routing(8, 2, 0, kSkewed, 1).topk_ids.empty());
}

TEST(Routing, HasBusyAndEmptyExperts) {
  auto busiest = [](double skew) {
    std::vector<int32_t> counts = tokens_of_each(make_routing(64, 4, 20, skew, 3));
    EXPECT_GT(std::count(counts.begin(), counts.end(), 0), 0);
    return *std::max_element(counts.begin(), counts.end());
  };
  EXPECT_LE(busiest(0), 3);
  EXPECT_GE(busiest(kSkewed), 8);
  EXPECT_EQ(busiest(4), 20);  // every token's
  EXPECT_NE(make_routing(64, 4, 20, kSkewed, 3).topk_ids, make_routing(64, 4, 20, kSkewed, 4).topk_ids);
}

TEST(Routing, TouchesAsManyExpertsAsOneTokenHasAndNeverMoreThanThereAre) {
  EXPECT_EQ(experts_touched(128, 8, 0), 0);
  EXPECT_EQ(experts_touched(128, 8, 1), 8);
  EXPECT_EQ(experts_touched(8, 2, 1000), 7);  // of 8, one is without tokens
  EXPECT_EQ(experts_touched(3, 3, 5), 3);
}

// The arguments of one call describe one routing, whatever their names.
TEST(Routing, OfACallIsOne) {
  MoeGroupedGemm::Init init{.num_experts = 9, .top_k = 2, .in_features = 3, .out_features = 4};
  Workload w = Workload::tokens(13);
  Inputs inputs = MoeGroupedGemm::inputs(init, w);
  BatchMetadata batch(w, 7);
  Tensor sorted(inputs[1]->spec), offsets(inputs[2]->spec);
  fill(sorted, inputs[1]->generator, 7, "a", batch);
  fill(offsets, inputs[2]->generator, 7, "b", batch);
  Routing routing = make_routing(9, 2, 13, kSkewed, 7);
  EXPECT_TRUE(std::equal(routing.sorted_ids.begin(), routing.sorted_ids.end(), sorted.view().ptr<int32_t>()));
  EXPECT_TRUE(std::equal(routing.offsets.begin(), routing.offsets.end(), offsets.view().ptr<int32_t>()));
}

class TopkJudge : public testing::Test {
 protected:
  // One row of four logits, two experts chosen.
  std::string judged(std::vector<double> logits, std::vector<int32_t> ids, std::vector<float> weights) {
    Tensor x({1, 4}, DType::kF64), w({1, 2}, DType::kF32), i({1, 2}, DType::kI32), own_w({1, 2}, DType::kF64),
        own_i({1, 2}, DType::kI32);
    std::copy(logits.begin(), logits.end(), x.view().ptr<double>());
    std::copy(ids.begin(), ids.end(), i.view().ptr<int32_t>());
    std::copy(weights.begin(), weights.end(), w.view().ptr<float>());
    std::vector<int32_t> order{0, 1, 2, 3};
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
    std::copy_n(order.begin(), 2, own_i.view().ptr<int32_t>());
    const OptView call[] = {x.view(), w.view(), i.view()}, reference[] = {x.view(), own_w.view(), own_i.view()};
    return TopkSoftmax::judge({.num_experts = 4, .top_k = 2, .renormalize = true}, call, reference);
  }
  const float big = 0.7310586f, small = 0.2689414f;  // of logits that differ by one
};

TEST_F(TopkJudge, AcceptsTheOracleAndTiesWithinRounding) {
  EXPECT_EQ(judged({0, 2, 1, -1}, {1, 2}, {big, small}), "");
  EXPECT_EQ(judged({1 - 1e-9, 2, 1, -1}, {1, 2}, {big, small}), "");
  EXPECT_EQ(judged({1 - 1e-9, 2, 1, -1}, {1, 0}, {big, small}), "");
}

TEST_F(TopkJudge, RefusesOthers) {
  EXPECT_NE(judged({0, 2, 1, -1}, {2, 1}, {small, big}), "");  // the largest first
  EXPECT_NE(judged({1, 2, 1, -1}, {1, 2}, {big, small}), "");  // of equal ones the first
  EXPECT_NE(judged({0, 2, 1, -1}, {1, 0}, {big, small}), "");
  EXPECT_NE(judged({0, 2, 1, -1}, {1, 1}, {big, small}), "");
  EXPECT_NE(judged({0, 2, 1, -1}, {1, 4}, {big, small}), "");
  EXPECT_NE(judged({0, 2, 1, -1}, {1, -1}, {big, small}), "");
  EXPECT_NE(judged({0, 2, 1, -1}, {1, 2}, {big, small + 1e-4f}), "");
  EXPECT_NE(judged({0, 2, 1, -1}, {1, 2}, {NAN, small}), "");
}

// One row of six logits in three groups of two, two groups and two experts chosen.
std::string grouped(std::vector<double> logits, std::vector<int32_t> ids, std::vector<float> weights) {
  Tensor x({1, 6}, DType::kF64), bias({6}, DType::kF64), w({1, 2}, DType::kF32), i({1, 2}, DType::kI32);
  std::copy(logits.begin(), logits.end(), x.view().ptr<double>());
  const double kBias[] = {0, 0, 0, 0.5, 0, 0};
  std::copy_n(kBias, 6, bias.view().ptr<double>());
  std::copy(ids.begin(), ids.end(), i.view().ptr<int32_t>());
  std::copy(weights.begin(), weights.end(), w.view().ptr<float>());
  const OptView call[] = {x.view(), bias.view(), w.view(), i.view()};
  GroupedTopk::Init init{.num_experts = 6, .top_k = 2, .num_expert_group = 3, .topk_group = 2};
  return GroupedTopk::judge(init, call, call);
}

TEST(GroupedTopkJudge, AcceptsTheBestOfTheBestGroups) {
  const float one = 0.7310586f, zero = 0.5f, two = 0.8807971f;  // sigmoids of 1, 0 and 2
  // The groups are worth 1.46, 1.5 and 0.88 + a little: expert 4 has the highest score but its group is not chosen.
  EXPECT_EQ(grouped({1, 1, 0, 0, 2, -9}, {3, 0}, {zero, one}), "");
  EXPECT_NE(grouped({1, 1, 0, 0, 2, -9}, {3, 4}, {zero, two}), "");
  EXPECT_NE(grouped({1, 1, 0, 0, 2, -9}, {3, 1}, {zero, one}), "");         // of equal ones the first
  EXPECT_NE(grouped({1, 1, 0, 0, 2, -9}, {0, 3}, {one, zero}), "");         // with its bias expert 3 is better
  EXPECT_NE(grouped({1, 1, 0, 0, 2, -9}, {3, 0}, {zero + 0.5f, one}), "");  // the bias is no part of the weight
  EXPECT_NE(grouped({1, 1, 0, 0, 2, -9}, {3, 3}, {zero, zero}), "");
  EXPECT_NE(grouped({1, 1, 0, 0, 2, -9}, {3, 6}, {zero, one}), "");
}

TEST(GroupedTopkJudge, AcceptsEitherGroupWithinRounding) {
  const float one = 0.7310586f, two = 0.8807971f;  // sigmoids of 1 and 2
  // Groups 0 and 2 differ by less than a rounding, and group 1 is better than both.
  const std::vector<double> logits = {1, -1, -9, 2, 1 + 1e-9, -1};
  EXPECT_EQ(grouped(logits, {3, 4}, {two, one}), "");
  EXPECT_EQ(grouped(logits, {3, 0}, {two, one}), "");
  EXPECT_NE(grouped(logits, {4, 0}, {one, one}), "");
}

}  // namespace
}  // namespace fk
