// The scheduler: no page is lost, stale or shared by mistake, limits hold, every request ends in bounded time, and the
// tokens of a request do not depend on what else runs.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <numeric>

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
  return load;
}

void simulate(uint64_t first, uint64_t last) {
  SchedulerStats sum;
  int64_t ahead = 0;
  for (uint64_t seed = first; seed < last; ++seed) {
    SchedulerSimulation simulation(random_load(seed), seed);
    simulation.run();
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
    sum.preemptions += simulation.stats().preemptions;
    sum.cached_prompt_tokens += simulation.stats().cached_prompt_tokens;
    ahead += simulation.ahead();
  }
  // What is checked did happen.
  EXPECT_GT(sum.preemptions, 0);
  EXPECT_GT(sum.cached_prompt_tokens, 0);
  EXPECT_GT(ahead, 0);
}

TEST(Scheduler, HoldsItsInvariantsUnderRandomLoads) { simulate(0, 300); }
TEST(Scheduler, SlowHoldsItsInvariantsUnderManyRandomLoads) { simulate(300, 4000); }

}  // namespace
}  // namespace fk
