// An item from what its processes wrote: every comparison counts, and numbers that cannot be are refused.
#include "bench/eval/item.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bench/eval/side.h"
#include "core/error.h"

namespace fk {
namespace {

PairTask task() {
  PairTask t;
  t.name = "m_tp1";
  t.model = "m";
  t.category = "llm";
  t.num_prompts = 4;
  t.scale = "1/32";
  t.rounds = 3;
  return t;
}

Json errors(float error, float margin) {
  return to_json(PositionErrors{std::vector<float>(200, error), std::vector<float>(200, margin)});
}

// A pair whose candidate is twice as fast and right.
PairResults right_pair() {
  PairResults r;
  Json timed = {{"round", 0}, {"workloads", Json::object()}, {"checks", Json::array()}};
  Json forced = Json::object();
  r.reference["workloads"] = Json::object();
  for (const EvalWorkload& w : eval_workloads(Task::kCausalLM, parse_scale("1/32"))) {
    r.reference["workloads"][w.name] = {{"noise", errors(0.001F, 0)}, {"rounding", errors(0.002F, 0)}};
    timed["workloads"][w.name] = {{"times_ms", {2.0, 2.0}},
                                  {"drawn", Json::array({Json::array({Json::array({1, 2, 3})})})}};
    forced[w.name] = errors(0.001F, 0);
    r.scored["workloads"][w.name] = {{"candidate", errors(0, 0)}, {"baseline", errors(0, 0)}};
  }
  r.without.assign(4, timed);
  for (auto& [name, w] : timed["workloads"].items()) w["times_ms"] = {1.0, 1.0};
  timed["checks"] = Json::array({{{"when", "before"}, {"workloads", forced}}});
  r.with.assign(3, timed);
  return r;
}

Json item(const PairResults& results) { return item_of(task(), Task::kCausalLM, DType::kBF16, results); }

TEST(EvalItem, SpeedUpsAndAlignment) {
  Json made = item(right_pair());
  EXPECT_TRUE(made["valid"]) << made.dump(1);
  EXPECT_EQ(made["aligned"], 5);
  EXPECT_NEAR(made["blended_speedup"].get<double>(), 2, 1e-6);
  EvalItem scored = score_item(made);
  EXPECT_TRUE(scored.valid());
  EXPECT_EQ(scored.throughput_speedups.size(), 3u);
  EXPECT_EQ(scored.latency_speedups.size(), 2u);
}

// Right whenever it is checked, wrong while the clock runs: the baseline finds the tokens unlikely.
TEST(EvalItem, TokensDrawnWhileTimedCount) {
  PairResults r = right_pair();
  r.scored["workloads"]["balanced"]["candidate"] = errors(0.5F, 0.5F);
  Json made = item(r);
  EXPECT_FALSE(made["valid"]);
  EXPECT_EQ(made["aligned"], 4);
  EXPECT_NE(made["workloads"][1]["reason"].get<std::string>().find("drawn while it was timed"), std::string::npos);
}

TEST(EvalItem, OneWrongCheckOfManyCounts) {
  PairResults r = right_pair();
  Json wrong = r.with[2]["checks"][0];
  wrong["when"] = "after";
  wrong["workloads"]["decode-heavy"] = errors(0.5F, 0);
  r.with[2]["checks"].push_back(wrong);
  EXPECT_EQ(item(r)["aligned"], 4);
  r = right_pair();
  for (Json& process : r.with) process["checks"].clear();
  r.scored["workloads"]["balanced"]["candidate"] = errors(std::nanf(""), std::nanf(""));
  EXPECT_EQ(item(r)["aligned"], 4) << "what is no number is wrong";
}

TEST(EvalItem, TimesThatCannotBeAreRefused) {
  for (const Json& times : {Json::array({1.0}), Json::array({0.0, 1.0}), Json::array({-1.0, 1.0}), Json::array()}) {
    PairResults r = right_pair();
    r.with[1]["workloads"]["balanced"]["times_ms"] = times;
    EXPECT_THROW(item(r), Error) << times.dump();
  }
}

TEST(EvalItem, AFailedOneIsNotCorrect) {
  EvalItem scored = score_item(failed_item(task(), "candidate 1", "signal 4 ended it."));
  EXPECT_FALSE(scored.valid());
  EXPECT_EQ(scored.correctness(), 0);
}

TEST(EvalItem, ScoredRequestsComeFromBothSides) {
  Json chosen = choose_scored(eval_workloads(Task::kCausalLM, {}), right_pair(), 3);
  EXPECT_EQ(chosen["balanced"]["candidate"].size(), 8u);
  EXPECT_EQ(chosen["balanced"]["baseline"][0]["tokens"].size(), 3u);
  PairResults r = right_pair();
  r.with[0]["workloads"]["balanced"]["drawn"] = Json::array();
  r.with[1]["workloads"]["balanced"]["drawn"] = Json::array();
  r.with[2]["workloads"]["balanced"]["drawn"] = Json::array();
  EXPECT_THROW(choose_scored(eval_workloads(Task::kCausalLM, {}), r, 3), Error);
}

}  // namespace
}  // namespace fk
