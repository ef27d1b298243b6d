// The next step: rows for the requests that run, room for them, and admission of those that wait.
#include <algorithm>
#include <utility>

#include "core/check.h"
#include "engine/scheduler_state.h"

namespace fk {
namespace {

// The first request in the queue is looked up in the prefix cache when blocks became free, and otherwise only every so
// many steps, since its prompt may be long.
constexpr uint64_t kLookupInterval = 8;

}  // namespace

// Pages that it may ask for before it has drawn growth_tokens more.
int64_t Scheduler::State::missing_pages(const ScheduledSequence& s) const {
  int64_t ahead = std::min(s.limit(), s.known() + options.growth_tokens);
  int64_t by_length = pages(ahead) - std::ssize(s.blocks);
  int64_t by_window = max_held_pages(ahead, options.max_batched_tokens) - s.held_pages();
  return std::max<int64_t>(0, std::min(by_length, by_window));
}

StepPlan Scheduler::State::plan() {
  FK_CHECK(steps.size() < 2, "two steps are in flight; drawn() of the older one comes first");
  StepPlan plan;
  StepInFlight step;
  step.number = steps_made + 1;
  short_of_blocks = false;
  plan_running(plan);
  if (!short_of_blocks) plan_waiting(plan);
  if (plan.rows.empty()) return plan;
  ++steps_made;
  const int32_t* table = plan.tables.data();
  for (PlannedRow& row : plan.rows) {
    const size_t size = sequences.at(row.request)->blocks.size();
    row.blocks = {table, size};
    table += size;
  }
  step.early = std::move(early);
  early.clear();

  auto decodes = [](const PlannedRow& row) { return row.count == 1 && row.first > 0; };
  std::stable_partition(plan.rows.begin(), plan.rows.end(), decodes);
  for (const PlannedRow& row : plan.rows) {
    ScheduledSequence& s = *sequences.at(row.request);
    step.rows.push_back({&s, s.admission, s.planned, row.draws, row.drafts});
  }
  steps.push_back(std::move(step));
  return plan;
}

void Scheduler::State::plan_running(StepPlan& plan) {
  budget = options.max_batched_tokens;
  logits_room = options.max_prompt_logits;
  for (const ScheduledSequence* s : running) budget -= s->to_compute() == 1;
  FK_CHECK(budget >= 0);
  // In the order of arrival, so that a request only preempts those that have no row yet.
  for (auto next = running.begin(); next != running.end(); ++next) {
    ScheduledSequence& s = **next;
    int64_t wanted = s.to_compute();
    int64_t count = within_logits(s, wanted == 1 ? 1 : std::min(wanted, budget));
    if (count == 0) continue;
    guesses.clear();
    if (wanted == 1 && s.speculates) guess(s);
    count += std::ssize(guesses);
    int64_t possible = hold_pages(s, count);
    short_of_blocks |= possible < count;
    if (possible == 0) continue;
    budget -= wanted == 1 ? possible - 1 : possible;
    add_row(s, possible, std::span(guesses).first(wanted == 1 ? static_cast<size_t>(possible - 1) : 0), plan);
  }
}

// Of its next tokens; the one before them is the last it knows. Where blocks are scarce guesses take none, so that no
// request is preempted for them.
void Scheduler::State::guess(ScheduledSequence& s) {
  int64_t most = std::min({options.speculative.num_speculative_tokens, s.limit() - s.known() - 1, budget});
  if (pool.available() <= std::ssize(running))
    most = std::min(most, std::ssize(s.blocks) * options.page_size - s.known());
  if (options.speculative.has_draft_model())
    guesses.assign(static_cast<size_t>(std::max<int64_t>(most, 0)), kUnknownGuess);
  else
    s.ngrams.guess(s.tokens, options.speculative, most, guesses);
}

// Takes the blocks for its next `count` tokens, or for as many as there are blocks for; to get one token done, it
// preempts those that arrived later. 0: it has to wait until a step in flight gives blocks back or a request ends.
int64_t Scheduler::State::hold_pages(ScheduledSequence& s, int64_t count) {
  while (std::ssize(s.blocks) * options.page_size < s.planned + count) {
    if (pool.available() > 0) {
      s.blocks.push_back(pool.take());
      continue;
    }
    int64_t possible = std::ssize(s.blocks) * options.page_size - s.planned;
    if (possible > 0) return possible;
    if (awaits_free_block() || running.back() == &s) return 0;
    preempt(*running.back());
  }
  return count;
}

void Scheduler::State::add_row(ScheduledSequence& s, int64_t count, std::span<const int64_t> own_guesses,
                               StepPlan& plan) {
  PlannedRow row;
  row.request = s.id;
  row.first = s.planned;
  row.count = count;
  row.takes_drawn = s.planned >= s.known();
  row.draws = s.planned + count >= s.known();
  row.drafts.assign(own_guesses.begin(), own_guesses.end());
  row.prompt_logits = s.prompt_logits_of(count);
  logits_room -= row.prompt_logits;
  row.first_step = !s.has_run;
  plan.tables.insert(plan.tables.end(), s.blocks.begin(), s.blocks.end());
  row.state_slot = s.slot;
  s.planned += count;
  s.undrawn += row.draws;
  s.drafted += std::ssize(row.drafts);
  s.has_run = true;
  // If an older step in flight fails, what it left out makes the pages of this one useless.
  const bool waits_for_older = in_flight(s);
  s.last_step = steps_made + 1;
  if (shares && count > 1 && row.drafts.empty() && !waits_for_older) keep_early(s, row.first);
  plan.rows.push_back(std::move(row));
}

// The pages that this step completes are found by requests that are admitted to the same step. Those that an older step
// in flight completes enter the cache after it, and may leave the window then.
void Scheduler::State::keep_early(ScheduledSequence& s, int64_t first) {
  int64_t page = s.cached_pages;
  if ((page + 1) * options.page_size <= first) return;
  cache_pages(s, s.planned);
  for (; page < s.cached_pages; ++page) {
    const int32_t block = s.blocks[static_cast<size_t>(page)];
    if (!pool.kept(block)) continue;  // another block holds the same tokens
    early_step[static_cast<size_t>(block)] = steps_made + 1;
    early.push_back({&s, s.admission, block});
  }
}

void Scheduler::State::plan_waiting(StepPlan& plan) {
  while (budget > 0 && !waiting.empty() && std::ssize(running) < max_running) {
    ScheduledSequence& s = *waiting.front();
    // Preempted, and its last token is still in flight; or all its tokens are drawn and finish() comes.
    if (s.undrawn > 0 || s.all_drawn()) return;
    if (options.has_slots && free_slots.empty()) return;
    if (within_logits(s, std::min(s.to_compute(), budget)) == 0) return;
    if (!admit(s)) return;
    int64_t wanted = within_logits(s, std::min(s.to_compute(), budget));
    int64_t count = hold_pages(s, wanted);
    FK_CHECK(count > 0);
    budget -= count;
    add_row(s, count, {}, plan);
    if (count < wanted) return;
  }
}

// Moves the first waiting request to the running ones, with the pages that the prefix cache has of it.
bool Scheduler::State::admit(ScheduledSequence& s) {
  int64_t room = pool.available();
  for (const ScheduledSequence* r : running) room -= missing_pages(*r);
  if (running.empty() && awaits_blocks()) return false;
  if (!running.empty()) {
    if (room <= 0) return false;
    if (refused == s.id && room <= refused_room && steps_made < refused_at + kLookupInterval) return false;
  }

  // The last token is always computed, since its logits are needed, or all of them where all logits are.
  std::vector<int32_t> found;
  PrefixId prefix = kEmptyPrefix;
  int64_t page = options.page_size;
  for (int64_t end = page; shares && !s.wants_prompt_logits() && end < s.known(); end += page) {
    auto hit =
        pool.find(prefix, std::span(s.tokens).subspan(static_cast<size_t>(end - page), static_cast<size_t>(page)));
    if (hit.block < 0) break;
    // If the step in flight that computes it fails, requests of other steps must not have it.
    const uint64_t computed_by = early_step[static_cast<size_t>(hit.block)];
    if (computed_by != 0 && computed_by != steps_made + 1) break;
    // Two tokens at least beside such a page: rows of one token are computed apart from prompts.
    if (computed_by != 0 && std::min(s.known() - end, budget) < 2) break;
    found.push_back(hit.block);
    prefix = hit.prefix;
  }
  int64_t cached = std::ssize(found) * page;
  int64_t first_held = std::min(first_visible_page(cached), std::ssize(found));
  int64_t ahead = std::min(s.limit(), s.known() + options.growth_tokens);
  int64_t needed = std::min(pages(ahead) - first_held, max_held_pages(ahead, options.max_batched_tokens));
  for (int64_t i = first_held; i < std::ssize(found); ++i) needed -= pool.owners(found[static_cast<size_t>(i)]) > 0;
  // Alone, it has all blocks, and add() has checked that these are enough.
  if (!running.empty() && needed > room) {
    refused = s.id;
    refused_room = room;
    refused_at = steps_made;
    return false;
  }

  for (int64_t i = 0; i < std::ssize(found); ++i) {
    int32_t& block = found[static_cast<size_t>(i)];
    if (i < first_held)
      block = -1;
    else
      pool.share(block);
  }
  s.blocks = std::move(found);
  s.first_held = first_held;
  s.cached_pages = std::ssize(s.blocks);
  s.prefix = prefix;
  s.planned = cached;
  s.has_run = false;
  ++s.admission;
  if (options.has_slots) {
    s.slot = free_slots.back();
    free_slots.pop_back();
  }
  if (s.cached_tokens < 0) {
    s.cached_tokens = cached;
    counters.prompt_tokens += s.prompt_tokens;
    counters.cached_prompt_tokens += cached;
  }
  running.splice(running.end(), waiting, s.place);
  s.running = true;
  return true;
}

void Scheduler::State::preempt(ScheduledSequence& s) {
  give_back(s);
  s.planned = 0;
  s.cached_pages = 0;
  s.prefix = kEmptyPrefix;
  ++s.admission;
  s.running = false;
  waiting.splice(waiting.begin(), running, s.place);
  ++counters.preemptions;
  short_of_blocks = true;
}

}  // namespace fk
