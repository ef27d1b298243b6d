#include "core/tuned_choice.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace fk {
namespace {

using Choices = std::vector<TunedChoice*>;
thread_local Choices* collected = nullptr;  // while a step is recorded to see what it uses

// Every choice once, in the order of their first use.
std::unique_ptr<RecordedWork> record_collecting(const TunableStep& step, Choices& used) {
  struct Collect {
    explicit Collect(Choices& to) : before(std::exchange(collected, &to)) {}
    ~Collect() { collected = before; }
    Choices* before;
  } collect(used);
  return step.record();
}

// In turn, so that a disturbance or another clock meets both. Long steps vary less and are timed less often.
bool faster(const TunableStep& step, RecordedWork& tried, RecordedWork& best) {
  constexpr int kLeastRounds = 2, kMostRounds = 5;
  constexpr double kLongMs = 20;
  constexpr double kClearly = 0.998;  // less is noise, and what was fastest alone stays
  double tried_ms = std::numeric_limits<double>::infinity(), best_ms = tried_ms;
  for (int round = 0; round < kMostRounds && (round < kLeastRounds || best_ms < kLongMs); ++round) {
    tried_ms = std::min(tried_ms, step.time_ms(tried));
    best_ms = std::min(best_ms, step.time_ms(best));
  }
  return tried_ms < kClearly * best_ms;
}

}  // namespace

int use(TunedChoice& choice) {
  if (collected != nullptr && std::find(collected->begin(), collected->end(), &choice) == collected->end())
    collected->push_back(&choice);
  return choice.chosen;
}

int tune_step(const TunableStep& step) {
  Choices open;
  std::unique_ptr<RecordedWork> best = record_collecting(step, open);
  std::erase_if(open, [](const TunedChoice* c) { return c->made_in_step || c->contenders.size() < 2; });
  int changed = 0;
  for (TunedChoice* choice : open) {
    const int alone = choice->chosen;
    for (int contender : choice->contenders) {
      if (contender == alone) continue;
      const int before = std::exchange(choice->chosen, contender);
      try {
        std::unique_ptr<RecordedWork> tried = step.record();
        if (faster(step, *tried, *best))
          best = std::move(tried);
        else
          choice->chosen = before;
      } catch (...) {
        choice->chosen = before;
        throw;
      }
    }
    changed += choice->chosen != alone ? 1 : 0;
    choice->made_in_step = true;
    if (choice->keep) choice->keep();
  }
  return changed;
}

}  // namespace fk
