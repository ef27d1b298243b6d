// DraftModel: a second, smaller model that guesses the next tokens of the sequences in a step. Guesses are drawn for
// all sequences together, one pass for each token further ahead, with the parameters and the random numbers with which
// the target will draw: so a draft that is like the target guesses right under sampling, too.
//
// Its keys and values lie in blocks of its own memory, with the numbers and tables of the target's: what the scheduler
// decides (admission, preemption, shared pages, the end of a request) holds for both. It computes a prompt in the steps
// in which the target does. How much of a page it has computed is counted by block, since a page that the target shares
// may be one that the draft never saw: it then computes the page itself.
//
// An EAGLE-3 head (engine/eagle_head.h) is followed in the same way. Its entry of a token is made of that token's
// hidden states and of the next token: so the head computes what the target has computed in earlier steps, and
// everything it keeps of a guess is computed again when the token is known.
//
// Recurrent states cannot go back behind a guess. Every sequence has two slots: one that follows the text, and a copy
// of it in which guesses are drawn. Pages are not shared then, since the states of the sequence hold its whole past.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/eagle_head.h"
#include "engine/live_request.h"
#include "engine/step_executor.h"

namespace fk {

class DraftModel {
 public:
  // The limits of the target's steps; model and pool must outlive it. hidden_states: where the target keeps those that
  // an EAGLE-3 head guesses from; none: the model is a language model.
  DraftModel(const Model& model, ThreadPool& pool, const StepLimits& limits, std::span<const View> hidden_states = {});

  // Gives the plan's rows their guesses, where they have places for them, and computes their prompts. live: the
  // requests of the rows.
  void guess(StepPlan& plan, std::span<LiveRequest* const> live);
  // The request has ended.
  void forget(RequestId id);

  const Model& model() const { return executor_.model(); }
  StepExecutor& executor() { return executor_; }

 private:
  // What it knows of a request.
  struct Followed {
    int64_t length = 0;  // tokens from the first on that are in its states
    int32_t slot = -1;
    bool fresh = true;  // the slot holds nothing yet
  };
  // Tokens of a row that are not in its states.
  struct Missing {
    size_t row = 0;  // of the plan
    Followed* followed = nullptr;
    int64_t first = 0, end = 0;
  };

  void note_new_pages(const StepPlan& plan);
  int64_t computed_prefix(const PlannedRow& row) const;
  void computed(const PlannedRow& row, int64_t first, int64_t end);
  void catch_up(StepPlan& plan, std::span<LiveRequest* const> live);
  void run(std::span<const Missing> pass, StepPlan& plan, std::span<LiveRequest* const> live);
  void look_ahead(StepPlan& plan, std::span<LiveRequest* const> live, size_t known);
  void draw(const StepPlan& own, std::span<const std::span<const int64_t>> tokens, std::span<const size_t> of_rows,
            StepPlan& plan, size_t guess);
  int32_t trial_slot(const Followed& followed) const;
  int64_t end_of(const PlannedRow& row) const;
  int64_t end_of(const PlannedRow& row, int64_t first) const;
  std::span<const int64_t> own_tokens(std::span<const int64_t> tokens) const;

  const StepLimits limits_;
  const bool has_slots_;
  StepExecutor executor_;
  std::optional<EagleHead> head_;
  std::unordered_map<RequestId, Followed> followed_;
  std::vector<int32_t> computed_;  // by block: tokens from the page's first on
  // By block, of a head: the step that writes to the page, and from which of its tokens on.
  struct Writing {
    int64_t step = 0;
    int64_t from = 0;
  };
  std::vector<Writing> writing_;
  int64_t step_ = 0;
  std::vector<int32_t> free_slots_;  // of the first max_sequences

  // Of the present step, kept for their memory.
  std::vector<Missing> missing_;
  std::vector<SampledRow> sampled_;
};

}  // namespace fk
