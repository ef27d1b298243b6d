#include "engine/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "engine/scheduler_state.h"

namespace fk {

Scheduler::State::State(const SchedulerOptions& o)
    : options(o),
      shares(o.prefix_cache && !o.has_slots),
      max_running(std::min(o.max_sequences, o.max_batched_tokens)),
      pool(o.blocks, o.page_size),
      early_step(static_cast<size_t>(o.blocks)) {
  FK_CHECK(o.max_batched_tokens > 0 && o.max_sequences > 0 && o.page_size > 0 && o.sliding_window >= 0 &&
           o.max_prompt_logits > 0);
  FK_CHECK(o.speculative.num_speculative_tokens == 0 || !o.has_slots, "recurrent states cannot go back");
  for (int64_t i = o.max_sequences - 1; o.has_slots && i >= 0; --i) free_slots.push_back(static_cast<int32_t>(i));
}

// Its blocks and slot, at once or when the last step in flight that has it is over. The last pages go first, so that
// the prefix cache loses them before the pages that lead to them.
void Scheduler::State::give_back(ScheduledSequence& s) {
  StepInFlight* last = in_flight(s) ? &steps[s.last_step - steps.front().number] : nullptr;
  for (auto block = s.blocks.rbegin(); block != s.blocks.rend(); ++block) {
    if (*block < 0) continue;
    if (last)
      last->blocks.push_back(*block);
    else
      pool.release(*block);
  }
  s.blocks.clear();
  s.first_held = 0;
  if (s.slot >= 0) (last ? last->slots : free_slots).push_back(s.slot);
  s.slot = -1;
}

void Scheduler::State::guessed(std::span<const int64_t> tokens) {
  FK_CHECK(!steps.empty() && options.speculative.has_draft_model(), "no step waits for guesses");
  size_t at = 0;
  for (StepInFlight::Row& row : steps.back().rows) {
    FK_CHECK(tokens.size() - at >= row.drafts.size(), "a row with places for guesses has none");
    const auto own = tokens.subspan(at, row.drafts.size());
    std::copy(own.begin(), own.end(), row.drafts.begin());
    at += row.drafts.size();
  }
  FK_CHECK(at == tokens.size(), "there are more guesses than places for them");
}

void Scheduler::State::drawn(std::span<const int64_t> tokens) {
  FK_CHECK(!steps.empty(), "no step is in flight");
  StepInFlight& step = steps.front();
  size_t at = 0;
  for (const StepInFlight::Row& row : step.rows) {
    ScheduledSequence& s = *row.sequence;
    int64_t end = row.end;
    if (row.draws) {
      const size_t rows = 1 + row.drafts.size();
      FK_CHECK(tokens.size() - at >= rows, "a row that draws has no token");
      auto own = tokens.subspan(at, rows);
      at += rows;
      const size_t kept = tokens_kept(row.drafts, own);
      --s.undrawn;
      s.drafted -= std::ssize(row.drafts);
      if (!s.ended) s.tokens.insert(s.tokens.end(), own.begin(), own.begin() + static_cast<int64_t>(kept));
      if (!s.ended && !row.drafts.empty()) {
        ++counters.drafts;
        counters.draft_tokens += std::ssize(row.drafts);
        counters.accepted_tokens += static_cast<int64_t>(kept) - 1;
      }
      end -= static_cast<int64_t>(rows - kept);
    }
    if (s.ended || row.admission != s.admission) continue;
    s.planned -= row.end - end;
    if (shares) cache_pages(s, end);
    free_pages_outside_window(s, end);
  }
  FK_CHECK(at == tokens.size(), "there are more tokens than rows that draw");
  forget_early(step);
  for (int32_t block : step.blocks) pool.release(block);
  free_slots.insert(free_slots.end(), step.slots.begin(), step.slots.end());
  steps.pop_front();
}

// Pages of requests that have ended in this step, or were preempted, stay only if another request of it has them: it
// may have ended because the step failed.
void Scheduler::State::forget_early(const StepInFlight& step) {
  auto goes_on = [](const ScheduledSequence* s, uint64_t admission) { return !s->ended && s->admission == admission; };
  std::vector<int32_t> held;  // by requests that go on; made when it is needed
  for (const EarlyPage& page : step.early) {
    early_step[static_cast<size_t>(page.block)] = 0;
    if (goes_on(page.sequence, page.admission)) continue;
    if (held.empty()) {
      for (const StepInFlight::Row& row : step.rows)
        if (goes_on(row.sequence, row.admission))
          held.insert(held.end(), row.sequence->blocks.begin(), row.sequence->blocks.end());
      held.push_back(-1);
      std::sort(held.begin(), held.end());
    }
    if (!std::binary_search(held.begin(), held.end(), page.block)) pool.forget(page.block);
  }
}

// Its pages that end at or before `end` are computed and can be shared.
void Scheduler::State::cache_pages(ScheduledSequence& s, int64_t end) {
  for (int64_t page = options.page_size; (s.cached_pages + 1) * page <= end; ++s.cached_pages) {
    auto tokens = std::span(s.tokens).subspan(static_cast<size_t>(s.cached_pages * page), static_cast<size_t>(page));
    s.prefix = pool.keep(s.blocks[static_cast<size_t>(s.cached_pages)], s.prefix, tokens);
  }
}

// The step that computed all tokens before `next` is over, and later steps do not see pages that leave the window.
void Scheduler::State::free_pages_outside_window(ScheduledSequence& s, int64_t next) {
  for (int64_t end = std::min(first_visible_page(next), std::ssize(s.blocks)); s.first_held < end; ++s.first_held) {
    int32_t& block = s.blocks[static_cast<size_t>(s.first_held)];
    pool.release(block);
    block = -1;
  }
}

void Scheduler::State::finish(RequestId id) {
  auto found = sequences.find(id);
  FK_CHECK(found != sequences.end(), "finish() of a request that is not there");
  ScheduledSequence& s = *found->second;
  give_back(s);
  s.ended = true;
  (s.running ? running : waiting).erase(s.place);
  if (in_flight(s)) steps[s.last_step - steps.front().number].ended.push_back(std::move(found->second));
  sequences.erase(found);
}

void Scheduler::State::check() const {
  std::vector<int64_t> owners(static_cast<size_t>(pool.total()));
  std::vector<int64_t> slots(static_cast<size_t>(options.max_sequences));
  auto hold = [&](std::span<const int32_t> blocks) {
    for (int32_t block : blocks)
      if (block >= 0) ++owners[static_cast<size_t>(block)];
  };
  auto hold_slot = [&](int32_t slot) { FK_CHECK(++slots[static_cast<size_t>(slot)] == 1, "a slot is in two places"); };
  uint64_t arrival = 0;
  auto visit = [&](const ScheduledSequence& s, bool runs) {
    FK_CHECK(s.arrival > arrival, "a request was admitted before an older one");
    arrival = s.arrival;
    FK_CHECK(!s.ended && s.running == runs && sequences.at(s.id).get() == &s);
    FK_CHECK((runs && options.has_slots) == (s.slot >= 0));
    FK_CHECK(runs || (s.blocks.empty() && s.planned == 0));
    FK_CHECK(s.planned <= std::ssize(s.blocks) * options.page_size && s.planned <= s.known() + s.undrawn + s.drafted);
    for (int64_t i = 0; i < std::ssize(s.blocks); ++i)
      FK_CHECK((s.blocks[static_cast<size_t>(i)] < 0) == (i < s.first_held));
    hold(s.blocks);
    if (s.slot >= 0) hold_slot(s.slot);
  };
  for (const ScheduledSequence* s : running) visit(*s, true);
  for (const ScheduledSequence* s : waiting) visit(*s, false);
  FK_CHECK(sequences.size() == running.size() + waiting.size() && std::ssize(running) <= max_running);
  int64_t early_pages = 0;
  for (const StepInFlight& step : steps) {
    for (const EarlyPage& page : step.early) {
      FK_CHECK(early_step[static_cast<size_t>(page.block)] == step.number && pool.kept(page.block));
      ++early_pages;
    }
    hold(step.blocks);
    for (int32_t slot : step.slots) hold_slot(slot);
  }
  FK_CHECK(std::count_if(early_step.begin(), early_step.end(), [](uint64_t n) { return n > 0; }) == early_pages);
  pool.check(owners);
  for (int32_t slot : free_slots) hold_slot(slot);
  FK_CHECK(!options.has_slots || std::count(slots.begin(), slots.end(), 1) == options.max_sequences, "a slot is lost");
}

Scheduler::Scheduler(const SchedulerOptions& options) : state_(std::make_unique<State>(options)) {}
Scheduler::~Scheduler() = default;

void Scheduler::add(RequestId id, std::vector<int64_t> prompt, int64_t max_tokens, bool speculates,
                    bool prompt_logits) {
  State& state = *state_;
  if (state.log) state.log->add(id, prompt, max_tokens, speculates, prompt_logits);
  FK_CHECK(reason_it_never_fits(std::ssize(prompt), max_tokens).empty() && !has(id));
  auto s = std::make_unique<ScheduledSequence>();
  s->id = id;
  s->arrival = ++state.arrivals;
  s->prompt_tokens = std::ssize(prompt);
  s->max_tokens = max_tokens;
  s->speculates = speculates && state.options.speculative.num_speculative_tokens > 0;
  s->prompt_logits = prompt_logits;
  s->tokens = std::move(prompt);
  s->place = state.waiting.insert(state.waiting.end(), s.get());
  state.sequences.emplace(id, std::move(s));
}

std::string Scheduler::reason_it_never_fits(int64_t prompt_tokens, int64_t max_tokens) const {
  const SchedulerOptions& options = state_->options;
  if (prompt_tokens < 1) return "The prompt has no tokens; give at least one.";
  if (max_tokens < 0) return fmt::format("max_tokens is {}; it must be 0 or more.", max_tokens);
  if (prompt_tokens > options.max_context || max_tokens > options.max_context - prompt_tokens)
    return fmt::format(
        "A prompt of {} tokens and {} tokens of output are more than the context of {} tokens; shorten the prompt or "
        "ask for fewer tokens.",
        prompt_tokens, max_tokens, options.max_context);
  int64_t tokens = prompt_tokens + max_tokens;
  // In a window, prompts are computed in chunks as small as it takes.
  if (int64_t needed = state_->max_held_pages(tokens, 1); needed > options.blocks)
    return fmt::format(
        "A prompt of {} tokens and {} tokens of output need {} blocks of {} tokens, and the KV cache has {}; shorten "
        "the prompt, ask for fewer tokens or give the cache more memory.",
        prompt_tokens, max_tokens, needed, options.page_size, options.blocks);
  return "";
}

StepPlan Scheduler::plan() {
  StepPlan plan = state_->plan();
  if (state_->log) state_->log->plan(plan);
  return plan;
}

void Scheduler::guessed(std::span<const int64_t> tokens) {
  if (state_->log) state_->log->guessed(tokens);
  state_->guessed(tokens);
}

void Scheduler::drawn(std::span<const int64_t> tokens) {
  if (state_->log) state_->log->drawn(tokens);
  state_->drawn(tokens);
}

void Scheduler::finish(RequestId id) {
  if (state_->log) state_->log->finish(id);
  state_->finish(id);
}

void Scheduler::log_to(std::ostream& out) {
  FK_CHECK(state_->arrivals == 0, "a log begins before the first request");
  state_->log = std::make_unique<ScheduleLog>(out, state_->options);
}

bool Scheduler::has(RequestId id) const { return state_->sequences.contains(id); }
int64_t Scheduler::cached_tokens(RequestId id) const {
  return std::max<int64_t>(0, state_->sequences.at(id)->cached_tokens);
}
bool Scheduler::idle() const { return state_->sequences.empty(); }
void Scheduler::check() const { state_->check(); }

SchedulerStats Scheduler::stats() const {
  SchedulerStats stats = state_->counters;
  stats.running = std::ssize(state_->running);
  stats.waiting = std::ssize(state_->waiting);
  stats.blocks_used = state_->pool.used();
  stats.blocks_total = state_->pool.total();
  return stats;
}

}  // namespace fk
