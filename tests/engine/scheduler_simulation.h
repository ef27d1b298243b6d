// A device that is simulated, for tests of the scheduler: the key and value of a token is a hash of all tokens up to
// it, and the next token is drawn from the one that lies in memory. Every step checks that what it reads is what the
// sequence must find there, so a page that is lost, stale or shared by mistake is seen in the step that uses it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/rng.h"
#include "engine/scheduler.h"

namespace fk {

// What happens in one run: how requests look, and how often things go wrong.
struct SimulatedLoad {
  SchedulerOptions options;
  int64_t requests = 40;
  int64_t max_prompt = 60, max_output = 30;
  int64_t vocabulary = 50;   // token 0 ends a sequence
  double arrivals = 1;       // requests per step, on average
  double run_ahead = 0;      // probability that a step is planned before the previous one is over
  double cancel = 0;         // probability per step that some request is cancelled
  double fail = 0;           // probability that a step does not run
  double shared_prefix = 0;  // probability that a prompt begins as an earlier sequence does
  double prompt_logits = 0;  // probability that a request wants the logits of its prompt
  double no_output = 0;      // probability that a request wants no token
  double repeats = 0;        // probability that a token is what followed the one before it everywhere else
  double right_guesses = 0;  // probability that a guess of a draft model is right
};

class SchedulerSimulation {
 public:
  SchedulerSimulation(const SimulatedLoad& load, uint64_t seed);

  // Until every request has ended. Failures are reported to GoogleTest.
  void run();

  // Tokens that a request draws if nothing else runs.
  std::vector<int64_t> alone(const std::vector<int64_t>& prompt, int64_t max_tokens) const;

  const SchedulerStats& stats() const { return stats_; }
  int64_t steps() const { return steps_; }
  std::string log() const { return log_.str(); }
  int64_t early_reads() const { return early_reads_; }  // of tokens that the same step computes in another row
  int64_t prompt_logits() const { return prompt_logits_; }
  int64_t ahead() const { return ahead_; }  // steps that were planned before the previous one was over

 private:
  struct Cell {
    int64_t position = -1;
    uint64_t hash = 0;
    int64_t token = 0;
    bool operator==(const Cell&) const = default;
  };
  struct Simulated {
    std::vector<int64_t> tokens;  // prompt and drawn ones, as the device knows them
    int64_t prompt = 0, max_tokens = 0;
    int64_t told = 0;       // tokens that the host knows
    int64_t last_step = 0;  // by which it must have ended
    bool wants_logits = false;
    int64_t logits = 0;  // of positions of the prompt that steps gave, since the last admission
    bool live = true;
    bool broken = false;  // a step of it did not run
    bool complete = false;
  };

  double chance() { return random_.uniform(at_++); }
  int64_t below(int64_t n) { return static_cast<int64_t>(random_.below(at_++, static_cast<uint64_t>(n))); }
  int64_t next_token(uint64_t hash, int64_t last) const;
  void arrive();
  void cancel_one();
  void end(RequestId id);
  void plan();
  void guess(StepPlan& plan);
  void check_plan(const StepPlan& plan) const;
  void check_prompt_logits(const StepPlan& plan);
  void complete_oldest();
  void execute(const StepPlan& plan);
  // What a row of a request must find and leave at its positions: those of its tokens, and of its guesses.
  std::vector<Cell> cells(const PlannedRow& row) const;
  int64_t first_visible(const PlannedRow& row) const;
  void expect_visible(const PlannedRow& row, const std::vector<Cell>& own, int64_t end) const;
  Cell& cell(const PlannedRow& row, int64_t position);
  const Cell& cell(const PlannedRow& row, int64_t position) const;

  SimulatedLoad load_;
  std::ostringstream log_;
  Scheduler scheduler_;
  Stream random_;
  uint64_t at_ = 0;
  std::vector<Cell> memory_;
  std::vector<uint64_t> slots_;
  std::map<RequestId, Simulated> requests_;
  std::set<RequestId> live_;
  std::deque<StepPlan> in_flight_;
  int64_t steps_ = 0, ahead_ = 0, early_reads_ = 0, prompt_logits_ = 0;
  SchedulerStats stats_;
};

}  // namespace fk
