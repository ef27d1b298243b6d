#include "core/tuned_choice.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace fk {
namespace {

struct Nothing final : RecordedWork {
  explicit Nothing(double time_ms) : ms(time_ms) {}
  void launch() override {}
  double ms;
};

TunedChoice among(int count, int chosen = 0) {
  TunedChoice choice;
  choice.chosen = chosen;
  for (int i = 0; i < count; ++i) choice.contenders.push_back(i);
  return choice;
}

// A step that uses some choices; cost() says how long it takes with them.
TunableStep step_using(std::vector<TunedChoice*> used, const std::function<double()>& cost, int* recordings = nullptr) {
  return {.record =
              [=] {
                if (recordings != nullptr) ++*recordings;
                for (TunedChoice* choice : used) use(*choice);
                return std::make_unique<Nothing>(cost());
              },
          .time_ms = [](RecordedWork& work) { return dynamic_cast<Nothing&>(work).ms; }};
}

TEST(TunedChoice, AStepTakesTheFastestOfEachChoice) {
  TunedChoice a = among(4), b = among(3, 2);
  const std::vector<double> of_a{5, 4, 7, 4.5}, of_b{3, 2, 2.5};
  auto cost = [&] { return of_a[static_cast<size_t>(a.chosen)] + of_b[static_cast<size_t>(b.chosen)]; };
  EXPECT_EQ(tune_step(step_using({&a, &b, &a}, cost)), 2);
  EXPECT_EQ(a.chosen, 1);
  EXPECT_EQ(b.chosen, 1);
}

TEST(TunedChoice, WhatDependsOnAnEarlierChoiceIsTimedWithIt) {
  TunedChoice a = among(2), b = among(2);
  const double times[2][2] = {{5, 4}, {3, 6}};  // b's second split is only good beside a's first
  auto cost = [&] { return times[a.chosen][b.chosen]; };
  tune_step(step_using({&a, &b}, cost));
  EXPECT_EQ(a.chosen, 1);
  EXPECT_EQ(b.chosen, 0);
}

TEST(TunedChoice, WhatWasCloseIsTriedOnceMoreWithTheLaterChoices) {
  TunedChoice a = among(2), b = among(2);
  const double times[2][2] = {{5, 4}, {5.02, 3}};  // a's second split is a little slower, until b is its second
  auto cost = [&] { return times[a.chosen][b.chosen]; };
  EXPECT_EQ(tune_step(step_using({&a, &b}, cost)), 2);
  EXPECT_EQ(a.chosen, 1);
  EXPECT_EQ(b.chosen, 1);
}

TEST(TunedChoice, NoiseChangesNothing) {
  TunedChoice a = among(3, 1);
  const std::vector<double> times{9.99, 10, 10.01};
  EXPECT_EQ(tune_step(step_using({&a}, [&] { return times[static_cast<size_t>(a.chosen)]; })), 0);
  EXPECT_EQ(a.chosen, 1);
  EXPECT_TRUE(a.made_in_step);
}

TEST(TunedChoice, IsMadeOnceAndKept) {
  TunedChoice a = among(2), single = among(1), unused = among(2);
  int kept = 0, recordings = 0;
  a.keep = [&] { ++kept; };
  auto cost = [&] { return a.chosen == 1 ? 1.0 : 2.0; };
  tune_step(step_using({&a, &single}, cost, &recordings));
  EXPECT_EQ(kept, 1);
  EXPECT_EQ(recordings, 2);
  EXPECT_FALSE(unused.made_in_step);
  EXPECT_FALSE(single.made_in_step);
  tune_step(step_using({&a, &single}, cost, &recordings));
  EXPECT_EQ(kept, 1);
  EXPECT_EQ(recordings, 3) << "a step whose choices are made is recorded only to see what it uses";
}

TEST(TunedChoice, AFailedTrialLeavesTheChoice) {
  TunedChoice a = among(3);
  TunableStep step = step_using({&a}, [&]() -> double {
    if (a.chosen == 2) throw Error("This split does not run.");
    return 1;
  });
  EXPECT_THROW(tune_step(step), Error);
  EXPECT_EQ(a.chosen, 0);
  EXPECT_FALSE(a.made_in_step);
}

TEST(TunedChoice, LongAndSlowStepsAreTimedLessOften) {
  auto timings = [](double first_ms, double second_ms) {
    TunedChoice a = among(2);
    int count = 0;
    TunableStep step = step_using({&a}, [&] { return a.chosen == 0 ? first_ms : second_ms; });
    step.time_ms = [&count](RecordedWork& work) { return ++count, dynamic_cast<Nothing&>(work).ms; };
    tune_step(step);
    return count;
  };
  EXPECT_EQ(timings(1, 1), 10);
  EXPECT_EQ(timings(100, 100), 4);
  EXPECT_EQ(timings(1, 1.1), 4) << "clearly slower";
}

TEST(TunedChoice, WorkOfTrialsKnowsThatItIsOne) {
  TunedChoice a = among(2);
  int trials = 0;
  tune_step(step_using({&a}, [&] { return trials += is_trial() ? 1 : 0, 1.0; }));
  EXPECT_EQ(trials, 2);
  EXPECT_FALSE(is_trial());
  EXPECT_THROW(tune_step(step_using({}, []() -> double { throw Error("It does not run."); })), Error);
  EXPECT_FALSE(is_trial());
}

}  // namespace
}  // namespace fk
