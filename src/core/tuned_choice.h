// TunedChoice: one of several kernels that compute the same, chosen for one shape of work by timing them.
//
// A kernel is timed alone first. In a step kernels overlap and share the caches, and another one may be faster there:
// tune_step() makes the choices of a step again, by the time of the whole step.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/device_runtime.h"

namespace fk {

struct TunedChoice {
  int chosen = 0;
  std::vector<int> contenders;  // those worth trying in a step, the chosen one among them
  bool made_in_step = false;
  std::function<void()> keep;  // stores it for later processes
};

// The chosen one; notes that this thread's work uses the choice.
int use(TunedChoice& choice);

// A step: work that can be recorded and replayed many times, with the same result.
struct TunableStep {
  std::function<std::unique_ptr<RecordedWork>()> record;  // with the present choices
  std::function<double(RecordedWork&)> time_ms;           // of a few replays
};

// Whether this thread's work is a trial of tune_step(), which is not counted as a call of the model.
bool is_trial();

// Makes every choice that the step uses, and that no step has made yet, by timing the step with each contender.
// Returns how many choices changed.
int tune_step(const TunableStep& step);

}  // namespace fk
