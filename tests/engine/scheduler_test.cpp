// The scheduler: no page is lost, stale or shared by mistake, limits hold, every request ends in bounded time, and the
// tokens of a request do not depend on what else runs.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "engine/schedule_log.h"
#include "tests/engine/scheduler_simulation.h"

namespace fk {
namespace {

SimulatedLoad random_load(uint64_t seed) {
  Stream random(seed, "load");
  uint64_t at = 0;
  auto pick = [&](std::initializer_list<double> of) { return of.begin()[random.below(at++, of.size())]; };
  auto number = [&](std::initializer_list<double> of) { return static_cast<int64_t>(pick(of)); };
  SimulatedLoad load;
  load.options.page_size = number({1, 2, 4, 16});
  load.options.max_batched_tokens = number({1, 3, 8, 40, 200});
  load.options.max_sequences = number({1, 2, 5, 16});
  load.options.max_context = number({60, 100, 400});
  load.max_output = load.options.max_context * 3 / 4;
  load.options.prefix_cache = pick({0, 1, 1}) > 0;
  load.options.has_slots = pick({0, 0, 0, 1}) > 0;
  load.options.sliding_window = number({0, 0, 0, 1, 5, 16, 33});
  int64_t longest = (load.options.max_context + load.options.page_size - 1) / load.options.page_size;
  load.options.blocks =
      std::max<int64_t>(1, static_cast<int64_t>(pick({0.5, 1, 1.2, 2, 6}) * static_cast<double>(longest)));
  load.options.growth_tokens = number({0, 0, 3, 64});
  load.vocabulary = number({2, 20, 100000});
  load.arrivals = pick({0.1, 0.5, 2, 100});
  load.run_ahead = pick({0, 0.5, 1});
  load.cancel = pick({0, 0, 0.05, 0.5});
  load.fail = pick({0, 0, 0.02});
  load.shared_prefix = pick({0, 0.5, 1});
  if (!load.options.has_slots) load.options.speculative.num_speculative_tokens = number({0, 0, 1, 3, 8});
  load.options.speculative.prompt_lookup_min = number({1, 1, 2});
  load.options.speculative.prompt_lookup_max = load.options.speculative.prompt_lookup_min + number({0, 1, 4});
  load.repeats = pick({0, 0.5, 0.95});
  load.prompt_logits = pick({0, 0, 0.3, 1});
  load.no_output = pick({0, 0, 0.3});
  load.options.max_prompt_logits = number({1, 2, 7, 256});
  if (pick({0, 1}) > 0) load.options.speculative.method = SpeculativeMethod::kDraftModel;
  load.right_guesses = pick({0, 0.5, 1});
  return load;
}

void simulate(uint64_t first, uint64_t last) {
  SchedulerStats sum;
  int64_t ahead = 0, early_reads = 0, prompt_logits = 0;
  for (uint64_t seed = first; seed < last; ++seed) {
    SchedulerSimulation simulation(random_load(seed), seed);
    simulation.run();
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
    sum.preemptions += simulation.stats().preemptions;
    sum.cached_prompt_tokens += simulation.stats().cached_prompt_tokens;
    ahead += simulation.ahead();
    early_reads += simulation.early_reads();
    prompt_logits += simulation.prompt_logits();
    sum.draft_tokens += simulation.stats().draft_tokens;
    sum.accepted_tokens += simulation.stats().accepted_tokens;
  }
  // What is checked did happen.
  EXPECT_GT(sum.preemptions, 0);
  EXPECT_GT(sum.cached_prompt_tokens, 0);
  EXPECT_GT(ahead, 0);
  EXPECT_GT(early_reads, 0);
  EXPECT_GT(prompt_logits, 0);
  EXPECT_GT(sum.accepted_tokens, 0);
  EXPECT_GT(sum.draft_tokens, sum.accepted_tokens);
}

// The tokens of a sequence that the scheduler alone must see, with made-up ones drawn.
struct Rig {
  explicit Rig(const SchedulerOptions& options) : scheduler(options) {}

  StepPlan plan() {
    StepPlan plan = scheduler.plan();
    scheduler.check();
    return plan;
  }
  void drawn(const StepPlan& plan, int64_t token = 5) {
    scheduler.drawn(std::vector<int64_t>(static_cast<size_t>(plan.drawn_tokens()), token));
    scheduler.check();
  }
  StepPlan step(int64_t token = 5) {
    StepPlan made = plan();
    if (!made.empty()) drawn(made, token);
    return made;
  }

  Scheduler scheduler;
};

std::vector<int64_t> counting(int64_t n) {
  std::vector<int64_t> tokens(static_cast<size_t>(n));
  std::iota(tokens.begin(), tokens.end(), 1);
  return tokens;
}

// "request:first+count", t: takes_drawn, d: draws, g2: two guesses.
std::string rows(const StepPlan& plan) {
  std::string text = plan_text(plan);
  return text.size() < 15 ? "" : text.substr(5, text.size() - 15);
}

TEST(Scheduler, TakesALongPromptInChunksBesideRequestsThatDecode) {
  Rig rig({.max_batched_tokens = 8, .page_size = 4, .blocks = 100});
  rig.scheduler.add(1, counting(3), 10);
  EXPECT_EQ(rows(rig.step()), "1:0+3d");
  rig.scheduler.add(2, counting(16), 10);
  EXPECT_EQ(rows(rig.step()), "1:3+1d 2:0+7");
  EXPECT_EQ(rows(rig.step()), "1:4+1d 2:7+7");
  EXPECT_EQ(rows(rig.step()), "1:5+1d 2:14+2d");
  EXPECT_EQ(rows(rig.step()), "1:6+1d 2:16+1d");
}

TEST(Scheduler, APromptWhoseLogitsAreWantedIsComputedWholeAndInSmallChunks) {
  Rig rig({.max_batched_tokens = 100, .page_size = 4, .blocks = 100, .max_prompt_logits = 6});
  rig.scheduler.add(1, counting(16), 2);
  EXPECT_EQ(rows(rig.step()), "1:0+16d");
  rig.scheduler.add(2, counting(16), 2, true, true);
  rig.scheduler.add(3, counting(10), 0, true, true);
  EXPECT_EQ(rows(rig.step()), "1:16+1d 2:0+6p6");
  rig.scheduler.finish(1);
  EXPECT_EQ(rows(rig.step()), "2:6+6p6");
  EXPECT_EQ(rows(rig.step()), "2:12+4dp3 3:0+3p3");
  EXPECT_EQ(rows(rig.step()), "2:16+1d 3:3+7dp6");
  EXPECT_EQ(rig.scheduler.cached_tokens(2), 0);
  rig.scheduler.finish(2);
  EXPECT_EQ(rows(rig.step()), "") << "it asked for no token";
  rig.scheduler.finish(3);
  rig.scheduler.add(4, counting(16), 1);
  rig.step();
  EXPECT_EQ(rig.scheduler.cached_tokens(4), 12) << "what it computed is there for others";
}

// If the first step failed, the page would hold only what the second one computed.
TEST(Scheduler, APageThatTwoStepsInFlightComputeIsNotSharedBeforeTheyAreOver) {
  Rig rig({.max_batched_tokens = 6, .page_size = 8, .blocks = 100});
  rig.scheduler.add(1, counting(9), 4);
  StepPlan first = rig.plan();
  EXPECT_EQ(rows(first), "1:0+6");
  rig.scheduler.add(2, counting(12), 4);
  StepPlan second = rig.plan();
  EXPECT_EQ(rows(second), "1:6+3d 2:0+3");
  rig.drawn(first);
  rig.drawn(second);
  rig.scheduler.add(3, counting(12), 4);
  rig.step();
  rig.step();
  EXPECT_EQ(rig.scheduler.cached_tokens(3), 8);
}

TEST(Scheduler, PromptsComeInTheOrderOfArrivalAfterRequestsThatDecode) {
  Rig rig({.max_batched_tokens = 8, .page_size = 4, .blocks = 100, .prefix_cache = false});
  rig.scheduler.add(1, counting(20), 10);
  rig.scheduler.add(2, counting(3), 10);
  EXPECT_EQ(rows(rig.step()), "1:0+8");
  EXPECT_EQ(rows(rig.step()), "1:8+8");
  EXPECT_EQ(rows(rig.step()), "1:16+4d 2:0+3d");
  rig.scheduler.add(3, counting(17), 10);
  EXPECT_EQ(rows(rig.step()), "1:20+1d 2:3+1d 3:0+6");
}

TEST(Scheduler, PlansAheadWithTokensThatTheHostDoesNotKnow) {
  Rig rig({.page_size = 4, .blocks = 10});
  rig.scheduler.add(1, counting(3), 3);
  StepPlan a = rig.plan(), b = rig.plan();
  EXPECT_EQ(rows(a), "1:0+3d");
  EXPECT_EQ(rows(b), "1:3+1td");
  rig.drawn(a);
  StepPlan c = rig.plan();
  EXPECT_EQ(rows(c), "1:4+1td");
  rig.drawn(b);
  EXPECT_TRUE(rig.plan().empty()) << "all its tokens are planned";
  rig.drawn(c);
  EXPECT_TRUE(rig.plan().empty()) << "all its tokens are drawn, and finish() has not come";
  EXPECT_FALSE(rig.scheduler.idle());
  rig.scheduler.finish(1);
  EXPECT_TRUE(rig.scheduler.idle());
}

TEST(Scheduler, AnEqualPromptComputesOnlyWhatFollowsItsFullPages) {
  Rig rig({.page_size = 4, .blocks = 10});
  rig.scheduler.add(1, counting(8), 4);
  rig.step();
  rig.scheduler.add(2, counting(8), 4);
  rig.scheduler.add(3, counting(9), 4);
  StepPlan plan = rig.step();
  EXPECT_EQ(rows(plan), "1:8+1d 3:8+1d 2:4+4d") << "the last token is computed even if its page is there";
  EXPECT_EQ(plan.rows[2].blocks[0], plan.rows[0].blocks[0]);
  EXPECT_NE(plan.rows[2].blocks[1], plan.rows[0].blocks[1]);
  EXPECT_EQ(rig.scheduler.cached_tokens(1), 0);
  EXPECT_EQ(rig.scheduler.cached_tokens(2), 4);
  EXPECT_EQ(rig.scheduler.cached_tokens(3), 8);
  EXPECT_EQ(rig.scheduler.stats().prompt_tokens, 25);
  EXPECT_EQ(rig.scheduler.stats().cached_prompt_tokens, 12);
}

TEST(Scheduler, ASequenceThatEndedIsFoundByTheNextTurnOfItsConversation) {
  Rig rig({.page_size = 4, .blocks = 10});
  rig.scheduler.add(1, counting(6), 4);
  for (int i = 0; i < 4; ++i) rig.step(7);
  rig.scheduler.finish(1);
  EXPECT_EQ(rig.scheduler.stats().blocks_used, 0);
  std::vector<int64_t> next = counting(6);
  next.insert(next.end(), {7, 7, 7, 7, 1});
  rig.scheduler.add(2, next, 4);
  EXPECT_EQ(rows(rig.step()), "2:8+3d");
}

TEST(Scheduler, EqualPromptsOfOneStepAreComputedOnce) {
  Rig rig({.page_size = 4, .blocks = 20});
  for (RequestId id : {1, 2, 3}) rig.scheduler.add(id, counting(id == 3 ? 10 : 9), 4);
  StepPlan plan = rig.plan();
  EXPECT_EQ(rows(plan), "1:0+9d 2:4+5d 3:8+2d") << "two tokens at least are computed with those of the prompt";
  EXPECT_EQ(plan.rows[1].blocks[0], plan.rows[0].blocks[0]);
  EXPECT_EQ(plan.rows[2].blocks[1], plan.rows[0].blocks[1]);
  EXPECT_EQ(rig.scheduler.cached_tokens(3), 8);
  rig.drawn(plan);
  for (RequestId id : {1, 2, 3}) rig.scheduler.finish(id);
  EXPECT_EQ(rig.scheduler.stats().blocks_used, 0);
}

TEST(Scheduler, APageIsSharedWithOtherStepsOnlyAfterTheOneThatComputesIt) {
  Rig rig({.page_size = 4, .blocks = 20});
  rig.scheduler.add(1, counting(9), 4);
  StepPlan first = rig.plan();
  rig.scheduler.add(2, counting(9), 4);
  StepPlan second = rig.plan();
  EXPECT_EQ(rows(second), "1:9+1td 2:0+9d") << "the first step may still fail";
  rig.drawn(first);
  rig.drawn(second);
}

TEST(Scheduler, APageStaysWithTheRequestThatSharesItWhenTheOtherEnds) {
  Rig rig({.page_size = 4, .blocks = 20});
  rig.scheduler.add(1, counting(9), 4);
  rig.scheduler.add(2, counting(10), 4);
  StepPlan plan = rig.plan();
  EXPECT_EQ(rows(plan), "1:0+9d 2:8+2d");
  rig.scheduler.finish(1);
  rig.drawn(plan);
  rig.scheduler.add(3, counting(9), 4);
  EXPECT_EQ(rows(rig.step()), "2:10+1d 3:8+1d") << "its pages were computed";
}

TEST(Scheduler, APageOfAStepThatFailedIsNeverShared) {
  Rig rig({.page_size = 4, .blocks = 20});
  rig.scheduler.add(1, counting(9), 4);
  StepPlan failed = rig.plan();
  rig.scheduler.finish(1);
  rig.drawn(failed);
  rig.scheduler.add(2, counting(9), 4);
  EXPECT_EQ(rows(rig.step()), "2:0+9d");
}

TEST(Scheduler, PreemptsTheRequestThatCameLastAndKeepsItsTokens) {
  Rig rig({.page_size = 4, .blocks = 4, .prefix_cache = false, .growth_tokens = 0});
  rig.scheduler.add(1, counting(7), 9);
  rig.scheduler.add(2, counting(7), 9);
  EXPECT_EQ(rows(rig.step()), "1:0+7d 2:0+7d");
  EXPECT_EQ(rows(rig.step()), "1:7+1d 2:7+1d");
  EXPECT_EQ(rows(rig.step()), "1:8+1d") << "its third page is one of those that the second request had";
  EXPECT_EQ(rig.scheduler.stats().preemptions, 1);
  EXPECT_EQ(rig.scheduler.stats().waiting, 1);
  rig.scheduler.finish(1);
  StepPlan again = rig.step();
  EXPECT_EQ(rows(again), "2:0+9d");
  EXPECT_TRUE(again.rows[0].first_step);
}

TEST(Scheduler, PreemptsNoMoreThanItNeedsWhileAStepIsInFlight) {
  Rig rig({.page_size = 4, .blocks = 6, .prefix_cache = false, .growth_tokens = 0});
  for (RequestId id : {1, 2, 3}) rig.scheduler.add(id, counting(7), 9);
  StepPlan a = rig.plan(), b = rig.plan();
  EXPECT_EQ(rows(b), "1:7+1td 2:7+1td 3:7+1td");
  rig.drawn(a);
  EXPECT_TRUE(rig.plan().empty()) << "the blocks of the third request come back after the step in flight";
  rig.drawn(b);
  EXPECT_EQ(rows(rig.step()), "1:8+1d 2:8+1d");
  EXPECT_EQ(rig.scheduler.stats().preemptions, 1);
}

TEST(Scheduler, BlocksOfARequestThatEndedStayUntilItsStepIsOver) {
  Rig rig({.page_size = 4, .blocks = 2});
  rig.scheduler.add(1, counting(7), 1);
  StepPlan a = rig.plan();
  rig.scheduler.finish(1);
  rig.scheduler.add(2, counting(7), 1);
  EXPECT_TRUE(rig.plan().empty());
  rig.drawn(a);
  EXPECT_EQ(rows(rig.step()), "2:0+7d");
}

TEST(Scheduler, RefusesWhatCanNeverFitWithTheNumbers) {
  Scheduler scheduler({.max_context = 100, .page_size = 4, .blocks = 10});
  EXPECT_EQ(scheduler.reason_it_never_fits(30, 10), "");
  EXPECT_EQ(
      scheduler.reason_it_never_fits(30, 11),
      "A prompt of 30 tokens and 11 tokens of output need 11 blocks of 4 tokens, and the KV cache has 10; shorten "
      "the prompt, ask for fewer tokens or give the cache more memory.");
  EXPECT_EQ(scheduler.reason_it_never_fits(90, 11),
            "A prompt of 90 tokens and 11 tokens of output are more than the context of 100 tokens; shorten the prompt "
            "or ask for fewer tokens.");
  EXPECT_NE(scheduler.reason_it_never_fits(0, 1), "");
  EXPECT_NE(scheduler.reason_it_never_fits(1, -1), "");
  EXPECT_NE(scheduler.reason_it_never_fits(1, std::numeric_limits<int64_t>::max()), "");
}

TEST(Scheduler, AWindowFreesThePagesBeforeIt) {
  Rig rig({.max_batched_tokens = 16, .max_context = 1000, .page_size = 4, .blocks = 7, .sliding_window = 8});
  ASSERT_EQ(rig.scheduler.reason_it_never_fits(40, 100), "");
  rig.scheduler.add(1, counting(40), 100);
  StepPlan plan;
  for (int i = 0; i < 60; ++i) plan = rig.step();
  ASSERT_EQ(plan.rows.size(), 1u);
  EXPECT_EQ(plan.rows[0].first, 96);
  auto freed = std::count(plan.rows[0].blocks.begin(), plan.rows[0].blocks.end(), -1);
  EXPECT_EQ(freed, 22) << "the window of position 96 begins at 89, in page 22";
  EXPECT_EQ(std::ssize(plan.rows[0].blocks), 25);
  EXPECT_LE(rig.scheduler.stats().blocks_used, 3);
}

TEST(Scheduler, EverySequenceWithStatesHasASlotOfItsOwn) {
  Rig rig({.max_sequences = 2, .page_size = 4, .blocks = 20, .has_slots = true});
  for (RequestId id : {1, 2, 3}) rig.scheduler.add(id, counting(4), 4);
  StepPlan a = rig.plan();
  ASSERT_EQ(a.rows.size(), 2u);
  EXPECT_NE(a.rows[0].state_slot, a.rows[1].state_slot);
  int32_t slot = a.rows[0].state_slot;
  rig.scheduler.finish(1);
  StepPlan b = rig.plan();
  EXPECT_EQ(rows(b), "2:4+1td") << "the slot belongs to a step in flight";
  rig.drawn(a);
  StepPlan c = rig.plan();
  ASSERT_EQ(rows(c), "2:5+1td 3:0+4d");
  EXPECT_EQ(c.rows[1].state_slot, slot);
}

TEST(Scheduler, GuessesWhatFollowedTheLastTokensBefore) {
  Rig rig({.page_size = 4, .blocks = 20, .prefix_cache = false, .speculative = {3, 2, 2}});
  rig.scheduler.add(1, {7, 8, 9, 10, 11, 7, 8}, 20);
  rig.scheduler.add(2, {7, 8, 9, 10, 11, 7, 8}, 20, false);
  EXPECT_EQ(rows(rig.step(9)), "1:0+7d 2:0+7d") << "prompts are computed without guesses";
  StepPlan plan = rig.plan();
  ASSERT_EQ(rows(plan), "2:7+1d 1:7+4dg3");
  EXPECT_EQ(plan.rows[1].drafts, (std::vector<int64_t>{10, 11, 7}));
  // After 9 the model draws 10 and 11, and then something else.
  rig.scheduler.drawn(std::vector<int64_t>{10, 10, 11, 50, 8});
  rig.scheduler.check();
  EXPECT_EQ(rig.scheduler.stats().draft_tokens, 3);
  EXPECT_EQ(rig.scheduler.stats().accepted_tokens, 2);
  plan = rig.plan();
  EXPECT_EQ(rows(plan), "1:10+1d 2:8+1d") << "what was drawn after the wrong guess does not count";
  EXPECT_EQ(rig.scheduler.stats().preemptions, 0);
}

TEST(Scheduler, GuessesNoMoreThanTheRequestAndTheStepHaveRoomFor) {
  Rig rig({.max_batched_tokens = 5, .page_size = 4, .blocks = 20, .prefix_cache = false, .speculative = {8, 1, 1}});
  rig.scheduler.add(1, {5, 5, 5}, 4);
  EXPECT_EQ(rows(rig.step()), "1:0+3d");
  EXPECT_EQ(rows(rig.step()), "1:3+3dg2") << "three tokens are left, and one is drawn without a guess";
  EXPECT_TRUE(rig.plan().empty());
  rig.scheduler.finish(1);
  rig.scheduler.add(2, {5, 5}, 30);
  rig.scheduler.add(3, {5, 5}, 30);
  EXPECT_EQ(rows(rig.step()), "2:0+2d 3:0+2d");
  EXPECT_EQ(rows(rig.step()), "3:2+1d 2:2+4dg3") << "the older one has all the room that is left";
}

TEST(Scheduler, PlansPlacesForTheGuessesOfADraftModel) {
  Rig rig({.page_size = 4,
           .blocks = 20,
           .prefix_cache = false,
           .speculative = {.num_speculative_tokens = 3, .method = SpeculativeMethod::kDraftModel}});
  rig.scheduler.add(1, {7, 8, 9}, 20);
  rig.scheduler.add(2, {5, 6}, 20, false);
  EXPECT_EQ(rows(rig.step(9)), "1:0+3d 2:0+2d");
  const StepPlan plan = rig.plan();
  ASSERT_EQ(rows(plan), "2:2+1d 1:3+4dg3");
  EXPECT_EQ(plan.rows[1].drafts, std::vector<int64_t>(3, kUnknownGuess));
  rig.scheduler.guessed(std::vector<int64_t>{10, 11, 12});
  rig.scheduler.drawn(std::vector<int64_t>{30, 10, 11, 50, 51});
  rig.scheduler.check();
  EXPECT_EQ(rig.scheduler.stats().draft_tokens, 3);
  EXPECT_EQ(rig.scheduler.stats().accepted_tokens, 2);
  // Without guesses, as in a step that failed, one token is drawn.
  EXPECT_EQ(rows(rig.plan()), "2:3+1d 1:6+4dg3");
  rig.scheduler.drawn(std::vector<int64_t>{31, 0, 0, 0, 0});
  rig.scheduler.check();
  EXPECT_EQ(rig.scheduler.stats().accepted_tokens, 2);
  EXPECT_EQ(rows(rig.plan()), "2:4+1d 1:7+4dg3");
}

TEST(Scheduler, PreemptsNobodyForAGuess) {
  Rig rig({.page_size = 4, .blocks = 3, .prefix_cache = false, .growth_tokens = 0, .speculative = {8, 1, 1}});
  rig.scheduler.add(1, {5, 5}, 8);
  rig.scheduler.add(2, {5, 5}, 8);
  EXPECT_EQ(rows(rig.step()), "1:0+2d 2:0+2d");
  EXPECT_EQ(rows(rig.plan()), "1:2+2dg1 2:2+2dg1") << "guesses in the pages they have";
}

TEST(Scheduler, ARequestWithGuessesIsNotPlannedAhead) {
  Rig rig({.page_size = 4, .blocks = 20, .speculative = {3, 1, 1}});
  rig.scheduler.add(1, {5, 5}, 20);
  rig.scheduler.add(2, {5, 5}, 20, false);
  StepPlan a = rig.plan(), b = rig.plan();
  EXPECT_EQ(rows(a), "1:0+2d 2:0+2d");
  EXPECT_EQ(rows(b), "2:2+1td");
  rig.drawn(a);
  EXPECT_EQ(rows(rig.plan()), "2:3+1td 1:2+4dg3");
}

TEST(Scheduler, HoldsItsInvariantsUnderRandomLoads) { simulate(0, 100); }
TEST(Scheduler, SlowHoldsItsInvariantsUnderManyRandomLoads) { simulate(100, 2500); }

TEST(ScheduleLog, ShowsTheSameStepsAgain) {
  SimulatedLoad load = random_load(3);
  load.cancel = 0.1;
  load.run_ahead = 0.5;
  SchedulerSimulation simulation(load, 3);
  simulation.run();
  std::istringstream log(simulation.log());
  int64_t steps = 0;
  int64_t calls = replay_schedule(log, [&](const Scheduler&, const StepPlan& plan) { steps += !plan.empty(); });
  EXPECT_EQ(steps, simulation.steps());
  EXPECT_GT(calls, steps);
}

// Why a log cannot be replayed; empty if it can.
std::string replayed(const std::string& log) {
  std::istringstream in(log);
  try {
    replay_schedule(in);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

TEST(ScheduleLog, HasTheGuessesOfADraftModel) {
  SimulatedLoad load;
  load.options = {.max_batched_tokens = 40,
                  .max_sequences = 5,
                  .max_context = 100,
                  .page_size = 4,
                  .blocks = 60,
                  .speculative = {.num_speculative_tokens = 3, .method = SpeculativeMethod::kDraftModel}};
  load.run_ahead = 0.5;
  load.right_guesses = 0.7;
  SchedulerSimulation simulation(load, 5);
  simulation.run();
  EXPECT_GT(simulation.stats().accepted_tokens, 0);
  const std::string log = simulation.log();
  EXPECT_EQ(replayed(log), "");
  const size_t line = log.find("\nguessed ") + 1, next = log.find('\n', line) + 1;
  ASSERT_NE(line, 0u);
  // Without its guesses the step keeps other tokens; too many of them, or guesses twice, are refused.
  std::string without = log, more = log, twice = log;
  without.erase(line, next - line);
  more.insert(next - 1, " 7");
  twice.insert(next, log.substr(line, next - line));
  EXPECT_NE(replayed(without), "");
  EXPECT_NE(replayed(more).find("guesses for other rows"), std::string::npos);
  EXPECT_NE(replayed(twice).find("guesses for other rows"), std::string::npos);
}

std::string plan_line(const std::string& log) {
  size_t begin = log.find("plan");
  return log.substr(begin, log.find('\n', begin) - begin);
}

TEST(ScheduleLog, NamesTheLineThatIsNotAsItShouldBe) {
  std::ostringstream out;
  {
    Scheduler scheduler({.page_size = 4, .blocks = 10});
    scheduler.log_to(out);
    scheduler.add(1, {1, 2, 3}, 4);
    scheduler.plan();
    scheduler.drawn(std::vector<int64_t>{9});
    scheduler.finish(1);
  }
  auto with = [&](std::string_view what, std::string_view instead) {
    std::string log = out.str();
    EXPECT_NE(log.find(what), log.npos);
    return replayed(log.replace(log.find(what), what.size(), instead));
  };
  EXPECT_EQ(replayed(out.str()), "");
  EXPECT_EQ(replayed(""), "The log is empty.");
  EXPECT_EQ(with("options", "option"), "Line 1 of the log must begin with \"options\".");
  EXPECT_EQ(with("page_size=4", "page_size=x"), "Line 1 of the log has a word where a number must be.");
  EXPECT_EQ(with("prompt 1", "prompt -"), "Line 2 of the log has a word where a number must be.");
  EXPECT_EQ(with("1:0+3d", "1:0+2"),
            "Line 3 of the log has another plan than this scheduler makes, which is: " + plan_line(out.str()));
  EXPECT_EQ(with("drawn 9", "drawn 9 9"), "Line 4 of the log draws other rows than were planned.");
  EXPECT_EQ(with("finish 1", "finish 2"), "Line 5 of the log ends a request that is not there.");
  EXPECT_EQ(with("finish 1", "end 1"), "Line 5 of the log has the unknown call \"end\".");
}

}  // namespace
}  // namespace fk
