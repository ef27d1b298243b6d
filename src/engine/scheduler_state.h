// Scheduler::State: the requests, the pool and the steps in flight. scheduler_plan.cpp makes steps, scheduler.cpp ends
// them and the requests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/block_pool.h"
#include "engine/schedule_log.h"
#include "engine/scheduled_sequence.h"
#include "engine/scheduler.h"

namespace fk {

struct Scheduler::State {
  explicit State(const SchedulerOptions& options);

  int64_t pages(int64_t tokens) const { return (tokens + options.page_size - 1) / options.page_size; }
  // The first page that a token at this position still sees.
  int64_t first_visible_page(int64_t position) const {
    if (options.sliding_window == 0) return 0;
    return std::max<int64_t>(0, position - options.sliding_window + 1) / options.page_size;
  }
  // Pages that a sequence holds at most while steps compute `chunk` of its tokens.
  int64_t max_held_pages(int64_t tokens, int64_t chunk) const {
    if (options.sliding_window == 0) return pages(tokens);
    return std::min(pages(tokens), pages(options.sliding_window + chunk - 1) + 1);
  }

  bool in_flight(const ScheduledSequence& s) const { return !steps.empty() && s.last_step >= steps.front().number; }
  // The end of a step in flight gives back blocks of requests that are preempted or finished.
  bool awaits_blocks() const {
    return std::any_of(steps.begin(), steps.end(), [](const StepInFlight& step) { return !step.blocks.empty(); });
  }
  // The same, and at least one of them has no other owner.
  bool awaits_free_block() const {
    auto last_owner = [&](int32_t block) { return pool.owners(block) == 1; };
    return std::any_of(steps.begin(), steps.end(), [&](const StepInFlight& step) {
      return std::any_of(step.blocks.begin(), step.blocks.end(), last_owner);
    });
  }
  int64_t missing_pages(const ScheduledSequence& s) const;
  // Of `count` tokens, as many as the step has room for the logits of.
  int64_t within_logits(const ScheduledSequence& s, int64_t count) const {
    return s.prompt_logits_of(count) <= logits_room ? count : logits_room;
  }

  StepPlan plan();
  void plan_running(StepPlan& plan);
  void guess(ScheduledSequence& s);
  void plan_waiting(StepPlan& plan);
  bool admit(ScheduledSequence& s);
  int64_t hold_pages(ScheduledSequence& s, int64_t count);
  void add_row(ScheduledSequence& s, int64_t count, std::span<const int64_t> guesses, StepPlan& plan);
  void keep_early(ScheduledSequence& s, int64_t first);
  void forget_early(const StepInFlight& step);
  void preempt(ScheduledSequence& s);
  void give_back(ScheduledSequence& s);
  void guessed(std::span<const int64_t> tokens);
  void drawn(std::span<const int64_t> tokens);
  void cache_pages(ScheduledSequence& s, int64_t end);
  void free_pages_outside_window(ScheduledSequence& s, int64_t next);
  void finish(RequestId id);
  void check() const;

  const SchedulerOptions options;
  const bool shares;
  const int64_t max_running;
  BlockPool pool;
  std::vector<int32_t> free_slots;
  std::vector<uint64_t> early_step;  // by block: the step in flight that computes its page; 0: none
  std::unordered_map<RequestId, std::unique_ptr<ScheduledSequence>> sequences;
  std::list<ScheduledSequence*> running,
      waiting;                     // by arrival; everything in `running` arrived before everything in `waiting`
  std::deque<StepInFlight> steps;  // oldest first
  uint64_t arrivals = 0, steps_made = 0;
  SchedulerStats counters;
  std::unique_ptr<ScheduleLog> log;

  // Of the step that is being planned.
  int64_t budget = 0;       // tokens left for prompts
  int64_t logits_room = 0;  // of tokens of prompts
  bool short_of_blocks = false;
  std::vector<int64_t> guesses;  // of the row that is being planned
  std::vector<EarlyPage> early;
  // When the first waiting request was last refused.
  uint64_t refused_at = 0;
  RequestId refused = 0;
  int64_t refused_room = 0;
};

}  // namespace fk
