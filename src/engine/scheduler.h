// Scheduler: decides which tokens of which requests run in the next step. Pure: it has no clock and no device, and the
// same calls give the same plans, so that a log of them can be replayed.
//
// Continuous batching with chunked prefill: running requests that decode come first, then running prompts, then waiting
// requests in the order of arrival, until the step has max_batched_tokens or the cache is full. When a running request
// finds no free block, the request that was admitted last is preempted: its blocks are freed, its drawn tokens are
// kept, and it computes prompt and drawn tokens again when it is its turn.
//
// Fairness: requests are admitted in the order of arrival and preempted in the opposite order, so those that run are
// always the oldest ones. The oldest of all is never preempted and computes at least one token in every step, or in
// every second one with run-ahead, where it may have to wait for blocks of a step in flight. A request therefore ends
// at the latest after 2 * (tokens of prompt and output of itself and of all that arrived before it) steps.
//
// Order of calls: plan() makes a step in flight unless it is empty, and drawn() ends the oldest one; at most two are in
// flight. add() and finish() may come at any time. The blocks and the slot of a request that is finished or preempted
// while a step in flight has it are handed out again after drawn() of the last such step, so no step in flight shares
// them with another request. A page that a step completes is shared at once with requests that are admitted to the same
// step, and with others after drawn() of it. A page of a step that failed leaves the prefix cache if all its requests
// are finished before drawn().
//
// Speculation: a request that decodes may get guesses of its next tokens in its row, as far as the step has room after
// all that decode and blocks are plenty. How many of them are right is known in drawn(), so such a request is not
// planned ahead. What the guesses that were wrong left in its blocks is overwritten by its next steps, and no page with
// one enters the prefix cache. Where a draft model guesses, plan() gives the places of guesses, kUnknownGuess, and
// guessed() tells their tokens.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/speculation.h"
#include "engine/step_plan.h"

namespace fk {

struct SchedulerOptions {
  int64_t max_batched_tokens = 2048;  // of one step
  int64_t max_sequences = 256;        // that run at the same time
  int64_t max_context = 2048;         // tokens of one sequence
  int64_t page_size = 16;
  int64_t blocks = 0;  // of the pool
  bool prefix_cache = true;
  // Tokens that any layer can still see; 0: all of them. Blocks before this window are freed.
  int64_t sliding_window = 0;
  // A request is admitted if every running one can draw this many more tokens before a block is missing: to compute a
  // preempted request of a thousand tokens again costs about as much as some tens of decode steps.
  int64_t growth_tokens = 64;
  // The model has per-sequence states: no prefix cache, since they cannot be shared, and no speculation, since they
  // cannot go back.
  bool has_slots = false;
  SpeculativeOptions speculative = {};
  // Of one step: tokens of prompts whose logits are wanted. Prompts of such requests come in smaller chunks for it.
  int64_t max_prompt_logits = 256;
};

struct SchedulerStats {
  int64_t running = 0, waiting = 0;
  int64_t blocks_used = 0, blocks_total = 0;
  int64_t prompt_tokens = 0, cached_prompt_tokens = 0;
  int64_t preemptions = 0;
  int64_t drafts = 0, draft_tokens = 0, accepted_tokens = 0;  // rows with guesses, guesses, and those that were right
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);
  ~Scheduler();

  // Enters the queue. prompt.size() + max_tokens must fit max_context and the pool: reason_it_never_fits() is empty.
  // max_tokens 0: its prompt is computed, and the token that is drawn then is the last. speculates: its next tokens may
  // be guessed, where the options say how. prompt_logits: the logits of all tokens of its prompt are wanted, so nothing
  // of it is taken from the prefix cache.
  void add(RequestId id, std::vector<int64_t> prompt, int64_t max_tokens, bool speculates = true,
           bool prompt_logits = false);
  // One sentence with the numbers; empty if it fits.
  std::string reason_it_never_fits(int64_t prompt_tokens, int64_t max_tokens) const;

  // The next step; empty if nothing can run (drawn() must not be called for an empty one). Before the tokens of the
  // previous step are known it may be called once more (run_ahead): rows that need such a token have takes_drawn. A
  // request whose max_tokens are drawn is not planned any more and waits for finish().
  StepPlan plan();
  // The guesses of the step that was planned last, in the order of the rows, as many as these have places: after
  // plan() and before drawn() of it, where a draft model guesses. Without them no guess of the step counts.
  void guessed(std::span<const int64_t> tokens);
  // The tokens that the oldest planned step drew, in the order of the rows, draws_rows() of each: after guesses those
  // that tokens_kept() counts are kept. A request that ended since then is skipped.
  void drawn(std::span<const int64_t> tokens);

  // Ends a request: it stopped, was cancelled or failed. Its blocks stay until a step in flight that has it is over.
  void finish(RequestId id);
  bool has(RequestId id) const;
  // Prompt tokens that came from the prefix cache at its first admission.
  int64_t cached_tokens(RequestId id) const;

  bool idle() const;  // nothing waits or runs
  SchedulerStats stats() const;

  // Writes every call from now on as a line of text, before the first request. See engine/schedule_log.h.
  void log_to(std::ostream& out);

  // FK_CHECKs the invariants: every block is free, cached or owned, with the right number of owners. For tests.
  void check() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fk
