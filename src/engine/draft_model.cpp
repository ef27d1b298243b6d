#include "engine/draft_model.h"

#include <algorithm>

#include "core/check.h"
#include "engine/batching_options.h"

namespace fk {
namespace {

StepLimits draft_limits(const StepLimits& target, bool has_slots) {
  StepLimits limits = target;
  limits.max_drafts = 0;
  limits.slots = has_slots ? 2 * target.max_sequences : 0;
  return limits;
}

// A guess needs a token before it, which the prompt's last logits give, and one after it.
bool is_guessed(const LiveRequest& live) {
  constexpr int64_t kFewestTokens = 3;
  return live.speculates() && live.request().max_tokens >= kFewestTokens;
}

}  // namespace

DraftModel::DraftModel(const Model& model, ThreadPool& pool, const StepLimits& limits,
                       std::span<const View> hidden_states)
    : limits_(limits),
      has_slots_(has_recurrent_states(*model.root)),
      executor_(model, pool, draft_limits(limits, has_slots_)),
      computed_(static_cast<size_t>(limits.blocks)) {
  if (!hidden_states.empty()) {
    head_.emplace(model, hidden_states, limits.max_sequences);
    writing_.resize(computed_.size());
    executor_.run_by(
        [this](Context& ctx, const StepBatch& batch, const View& logits) { head_->pass(ctx, batch, logits); });
  }
  for (int64_t i = limits.max_sequences - 1; has_slots_ && i >= 0; --i) free_slots_.push_back(static_cast<int32_t>(i));
}

void DraftModel::forget(RequestId id) {
  auto found = followed_.find(id);
  if (found == followed_.end()) return;
  if (found->second.slot >= 0) free_slots_.push_back(found->second.slot);
  followed_.erase(found);
}

// What a step writes to a page is not what the draft computed there.
void DraftModel::note_new_pages(const StepPlan& plan) {
  const int64_t page = limits_.page_size;
  ++step_;
  for (const PlannedRow& row : plan.rows)
    for (int64_t p = row.first / page; p * page < row.first + row.count; ++p) {
      const auto block = static_cast<size_t>(row.blocks[static_cast<size_t>(p)]);
      const int64_t from = std::max<int64_t>(0, row.first - p * page);
      computed_[block] = std::min(computed_[block], static_cast<int32_t>(from));
      if (head_) writing_[block] = {step_, from};
    }
}

// Of the tokens before the row's first, those that are in its pages. Nobody sees pages that were freed.
int64_t DraftModel::computed_prefix(const PlannedRow& row) const {
  const int64_t page = limits_.page_size;
  int64_t length = 0;
  while (length < row.first) {
    const int32_t block = row.blocks[static_cast<size_t>(length / page)];
    const int64_t known = block < 0 ? page : computed_[static_cast<size_t>(block)];
    length += known;
    if (known < page) break;
  }
  return std::min(length, row.first);
}

void DraftModel::computed(const PlannedRow& row, int64_t first, int64_t end) {
  const int64_t page = limits_.page_size;
  for (int64_t p = first / page; p * page < end; ++p)
    computed_[static_cast<size_t>(row.blocks[static_cast<size_t>(p)])] =
        static_cast<int32_t>(std::min(page, end - p * page));
}

int32_t DraftModel::trial_slot(const Followed& followed) const {
  return has_slots_ ? followed.slot + static_cast<int32_t>(limits_.max_sequences) : -1;
}

// One past the last position of a row that can be computed before the step: of a head those whose hidden states the
// target has.
int64_t DraftModel::end_of(const PlannedRow& row) const {
  return head_ ? row.first : row.first + row.count - std::ssize(row.drafts);
}

// The same of what is computed from `first` on: a page that the row shares may be one that another row of this step
// computes.
int64_t DraftModel::end_of(const PlannedRow& row, int64_t first) const {
  if (!head_) return end_of(row);
  const int64_t page = limits_.page_size;
  for (int64_t p = first / page; p * page < row.first; ++p) {
    const int32_t block = row.blocks[static_cast<size_t>(p)];
    if (block >= 0 && writing_[static_cast<size_t>(block)].step == step_)
      return std::min(row.first, p * page + writing_[static_cast<size_t>(block)].from);
  }
  return row.first;
}

// By position: a head has the next token there.
std::span<const int64_t> DraftModel::own_tokens(std::span<const int64_t> tokens) const {
  return tokens.subspan(head_ ? 1 : 0);
}

void DraftModel::guess(StepPlan& plan, std::span<LiveRequest* const> live) {
  FK_CHECK(plan.rows.size() == live.size());
  note_new_pages(plan);
  // Every guess is a token, whatever happens.
  for (PlannedRow& row : plan.rows) std::fill(row.drafts.begin(), row.drafts.end(), 0);
  catch_up(plan, live);
  size_t most = 0;
  for (const PlannedRow& row : plan.rows) most = std::max(most, row.drafts.size());
  for (size_t known = 1; known < most; ++known) look_ahead(plan, live, known);
}

// The tokens of the plan's rows, and what the step before left out: the last guess, if it was right. The rows are in
// the order in which one may read a page that another computes, so passes are, too.
void DraftModel::catch_up(StepPlan& plan, std::span<LiveRequest* const> live) {
  missing_.clear();
  int64_t tokens = 0;
  auto run_pass = [&] {
    if (!missing_.empty()) run(missing_, plan, live);
    missing_.clear();
    tokens = 0;
  };
  for (size_t r = 0; r < live.size(); ++r) {
    const PlannedRow& row = plan.rows[r];
    if (!is_guessed(*live[r])) continue;
    Followed& f = followed_[row.request];
    if (has_slots_ && f.slot < 0) {
      // Preempted requests keep theirs, and run again before others begin, so there is one for each that runs.
      FK_CHECK(!free_slots_.empty(), "more requests are followed than can run");
      f.slot = free_slots_.back();
      free_slots_.pop_back();
    }
    if (row.first_step) {
      f.length = has_slots_ ? 0 : computed_prefix(row);
      f.fresh = true;
    }
    f.length = std::min(f.length, row.first);
    if (row.draws && live[r]->drawn() + 1 == live[r]->request().max_tokens) continue;  // its last token
    const int64_t end = end_of(row, f.length);
    int64_t first = f.length;
    while (first < end) {
      if (tokens > 0 && tokens + end - first > limits_.max_tokens) run_pass();
      const int64_t part = std::min(end, first + limits_.max_tokens);
      missing_.push_back({r, &f, first, part});
      tokens += part - first;
      computed(row, first, part);
      first = part;
      if (first < end) run_pass();
    }
    f.length = std::max(f.length, end);
  }
  run_pass();
}

void DraftModel::run(std::span<const Missing> pass, StepPlan& plan, std::span<LiveRequest* const> live) {
  StepPlan own;
  std::vector<std::span<const int64_t>> tokens;
  std::vector<size_t> drawing;
  sampled_.clear();
  for (const Missing& m : pass) {
    const PlannedRow& row = plan.rows[m.row];
    PlannedRow mine;
    mine.request = row.request;
    mine.first = m.first;
    mine.count = m.end - m.first;
    mine.draws = !row.drafts.empty() && m.end == end_of(row);
    mine.first_step = std::exchange(m.followed->fresh, false);
    mine.blocks = row.blocks;
    mine.state_slot = m.followed->slot;
    tokens.push_back(own_tokens(live[m.row]->tokens()));
    if (mine.draws) {
      drawing.push_back(m.row);
      sampled_.push_back(live[m.row]->sampled_row());
    }
    own.rows.push_back(std::move(mine));
  }
  if (head_) head_->take_target_states();
  draw(own, tokens, drawing, plan, 0);
  for (size_t r : drawing)
    if (has_slots_ && plan.rows[r].drafts.size() > 1) {
      const Followed& f = followed_.at(plan.rows[r].request);
      executor_.copy_slot(f.slot, trial_slot(f));
    }
}

// One more guess of every row that has a place for it, after the `known` guesses before it.
void DraftModel::look_ahead(StepPlan& plan, std::span<LiveRequest* const> live, size_t known) {
  StepPlan own;
  std::vector<std::span<const int64_t>> tokens;
  std::vector<size_t> drawing;
  sampled_.clear();
  for (size_t r = 0; r < live.size(); ++r) {
    const PlannedRow& row = plan.rows[r];
    if (row.drafts.size() <= known) continue;
    Followed& f = followed_.at(row.request);
    PlannedRow mine;
    mine.request = row.request;
    mine.first = end_of(row) + static_cast<int64_t>(known) - 1;
    mine.count = 1;
    mine.draws = true;
    mine.blocks = row.blocks;
    mine.state_slot = trial_slot(f);
    tokens.push_back(own_tokens(live[r]->tokens_with(std::span(row.drafts).first(known))));
    drawing.push_back(r);
    sampled_.push_back(live[r]->sampled_row(static_cast<int64_t>(known)));
    if (!has_slots_ && !head_) {  // what is left of it is what the next step begins behind
      computed(row, mine.first, mine.first + 1);
      f.length = mine.first + 1;
    }
    own.rows.push_back(std::move(mine));
  }
  if (head_) head_->take_own_states(drawing);
  draw(own, tokens, drawing, plan, known);
}

void DraftModel::draw(const StepPlan& own, std::span<const std::span<const int64_t>> tokens,
                      std::span<const size_t> of_rows, StepPlan& plan, size_t guess) {
  executor_.forward(own, tokens);
  if (head_) head_->keep_states(of_rows);
  executor_.draw(sampled_);
  const std::span<const int64_t> drawn = executor_.drawn();
  const int64_t vocabulary = model().config.facts.vocab_size;
  for (size_t i = 0; i < of_rows.size(); ++i) {
    // Of logits that are NaN anything may be drawn. A guess is only tried, but it must be a token.
    const bool usable = drawn[i] >= 0 && drawn[i] < vocabulary;
    plan.rows[of_rows[i]].drafts[guess] = usable ? drawn[i] : 0;
  }
}

}  // namespace fk
