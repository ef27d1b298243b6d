// A log of the calls of a scheduler, one line each, and its replay. The scheduler is pure, so a log shows a bug again
// on any machine, without the model. It holds the tokens of prompts and outputs.
//
//   options max_batched_tokens=2048 max_sequences=256 ...
//   add 7 max_tokens=16 speculates=1 prompt 1 15043 3186     logits before "prompt": those of the prompt are wanted
//   plan 7:0+3d 5:18+1td 2:9+3dg2 #1f3a90c2   each row: request, first position, tokens; t: takes_drawn, d: draws,
//   guessed 4 8                               g2: two of the tokens are guesses, p2: two logits of the
//   drawn 29901 13 4 8 9                      prompt are wanted; after #, a check sum of the whole plan
//   finish 7                                  guessed: by a draft model, for the step that was planned last
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <span>
#include <string>

#include "engine/scheduler.h"

namespace fk {

class ScheduleLog {
 public:
  ScheduleLog(std::ostream& out, const SchedulerOptions& options);

  void add(RequestId id, std::span<const int64_t> prompt, int64_t max_tokens, bool speculates, bool prompt_logits);
  void plan(const StepPlan& plan);
  void guessed(std::span<const int64_t> tokens);
  void drawn(std::span<const int64_t> tokens);
  void finish(RequestId id);

 private:
  std::ostream& out_;
};

// The line of a plan.
std::string plan_text(const StepPlan& plan);

// Makes the same calls again and checks the scheduler after each; observe is called with every plan. Throws Error that
// names the line where the log is not valid or a plan differs. Returns the number of calls.
int64_t replay_schedule(std::istream& log, const std::function<void(const Scheduler&, const StepPlan&)>& observe = {});

}  // namespace fk
