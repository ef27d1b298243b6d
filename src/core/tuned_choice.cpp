#include "core/tuned_choice.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace fk {
namespace {

using Choices = std::vector<TunedChoice*>;
thread_local Choices* collected = nullptr;  // while a step is recorded to see what it uses
thread_local bool trying = false;           // in tune_step()

// Every choice once, in the order of their first use.
std::unique_ptr<RecordedWork> record_collecting(const TunableStep& step, Choices& used) {
  struct Collect {
    explicit Collect(Choices& to) : before(std::exchange(collected, &to)) {}
    ~Collect() { collected = before; }
    Choices* before;
  } collect(used);
  return step.record();
}

enum class Trial : uint8_t { kFaster, kClose, kSlower };

// In turn, so that a disturbance or another clock meets both. What is clearly slower, or long, is timed less often.
Trial compare(const TunableStep& step, RecordedWork& tried, RecordedWork& best) {
  constexpr int kLeastRounds = 2, kMostRounds = 5;
  constexpr double kLongMs = 20, kClearlyFaster = 0.998, kClose = 1.01;
  double tried_ms = std::numeric_limits<double>::infinity(), best_ms = tried_ms;
  for (int round = 0; round < kMostRounds; ++round) {
    if (round >= kLeastRounds && (best_ms >= kLongMs || tried_ms > kClose * best_ms)) break;
    tried_ms = std::min(tried_ms, step.time_ms(tried));
    best_ms = std::min(best_ms, step.time_ms(best));
  }
  if (tried_ms < kClearlyFaster * best_ms) return Trial::kFaster;
  return tried_ms <= kClose * best_ms ? Trial::kClose : Trial::kSlower;
}

// Tries the contenders of one choice and keeps the fastest. Returns those that were about as fast.
std::vector<int> try_contenders(const TunableStep& step, TunedChoice& choice, const std::vector<int>& contenders,
                                std::unique_ptr<RecordedWork>& best) {
  std::vector<int> close;
  for (int contender : contenders) {
    if (contender == choice.chosen) continue;
    const int before = std::exchange(choice.chosen, contender);
    Trial trial = Trial::kSlower;
    std::unique_ptr<RecordedWork> tried;
    try {
      tried = step.record();
      trial = compare(step, *tried, *best);
    } catch (...) {
      choice.chosen = before;
      throw;
    }
    if (trial == Trial::kFaster) {
      best = std::move(tried);
      close.push_back(before);
    } else {
      choice.chosen = before;
      if (trial == Trial::kClose) close.push_back(contender);
    }
  }
  return close;
}

}  // namespace

int use(TunedChoice& choice) {
  if (collected != nullptr && std::find(collected->begin(), collected->end(), &choice) == collected->end())
    collected->push_back(&choice);
  return choice.chosen;
}

bool is_trial() { return trying; }

int tune_step(const TunableStep& step) {
  struct Trying {
    Trying() { trying = true; }
    ~Trying() { trying = false; }
  } now;
  Choices open;
  std::unique_ptr<RecordedWork> best = record_collecting(step, open);
  std::erase_if(open, [](const TunedChoice* c) { return c->made_in_step || c->contenders.size() < 2; });
  std::vector<int> alone;
  std::vector<std::vector<int>> close;
  for (TunedChoice* choice : open) {
    alone.push_back(choice->chosen);
    close.push_back(try_contenders(step, *choice, choice->contenders, best));
  }
  // Once more: which one is best also depends on what was chosen for the others since.
  for (size_t i = 0; i < open.size() && open.size() > 1; ++i) try_contenders(step, *open[i], close[i], best);
  int changed = 0;
  for (size_t i = 0; i < open.size(); ++i) {
    changed += open[i]->chosen != alone[i] ? 1 : 0;
    open[i]->made_in_step = true;
    if (open[i]->keep) open[i]->keep();
  }
  return changed;
}

}  // namespace fk
