// A sample history: operators that got faster, one that got slower, one that failed, models with sweeps.
#pragma once

#include "track/store.h"

namespace fk {

inline constexpr const char* kHostileName = "<script>alert('fk')</script>";

struct SampleHistory {
  int runs = 24;        // kernel runs, an hour apart
  bool hostile = true;  // one run whose name, note, sentence and file try to be markup
  bool models = true;   // `ttft` runs with sweeps and a failure
  int samples = 60;     // pairs of each result; 0: none
};

// Runs end at `now_us`. Deterministic: the same numbers every time.
void fill_history(Store& store, const SampleHistory& what, int64_t now_us);

// Many small runs in one transaction, for speed tests.
void fill_many_runs(Store& store, int runs, int64_t now_us);

}  // namespace fk
