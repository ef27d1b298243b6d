#include "engine/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>

#include "core/check.h"
#include "engine/scheduled_sequence.h"

namespace fk {
namespace {

using Sequence = ScheduledSequence;

// The first request in the queue is looked up in the prefix cache when blocks became free, and otherwise only every so
// many steps, since its prompt may be long.
constexpr uint64_t kLookupInterval = 8;

}  // namespace

struct Scheduler::State {
  explicit State(const SchedulerOptions& o)
      : options(o),
        shares(o.prefix_cache && !o.has_slots),
        max_running(std::min(o.max_sequences, o.max_batched_tokens)),
        pool(o.blocks, o.page_size) {
    FK_CHECK(o.max_batched_tokens > 0 && o.max_sequences > 0 && o.page_size > 0 && o.sliding_window >= 0);
    for (int64_t i = o.max_sequences - 1; o.has_slots && i >= 0; --i) free_slots.push_back(static_cast<int32_t>(i));
  }

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

  bool in_flight(const Sequence& s) const { return !steps.empty() && s.last_step >= steps.front().number; }
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
  int64_t missing_pages(const Sequence& s) const;

  StepPlan plan();
  void plan_running(StepPlan& plan);
  void plan_waiting(StepPlan& plan);
  bool admit(Sequence& s);
  int64_t hold_pages(Sequence& s, int64_t count);
  void add_row(Sequence& s, int64_t count, StepPlan& plan) const;
  void preempt(Sequence& s);
  void give_back(Sequence& s);
  void drawn(std::span<const int64_t> tokens);
  void cache_pages(Sequence& s, int64_t end);
  void free_pages_outside_window(Sequence& s, int64_t next);
  void finish(RequestId id);
  void check() const;

  const SchedulerOptions options;
  const bool shares;
  const int64_t max_running;
  BlockPool pool;
  std::vector<int32_t> free_slots;
  std::unordered_map<RequestId, std::unique_ptr<Sequence>> sequences;
  std::list<Sequence*> running, waiting;  // by arrival; everything in `running` arrived before everything in `waiting`
  std::deque<StepInFlight> steps;         // oldest first
  uint64_t arrivals = 0, steps_made = 0;
  SchedulerStats counters;

  // Of the step that is being planned.
  int64_t budget = 0;  // tokens left for prompts
  bool short_of_blocks = false;
  // When the first waiting request was last refused.
  uint64_t refused_at = 0;
  RequestId refused = 0;
  int64_t refused_room = 0;
};

// Pages that it may ask for before it has drawn growth_tokens more.
int64_t Scheduler::State::missing_pages(const Sequence& s) const {
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

  auto decodes = [](const PlannedRow& row) { return row.count == 1 && row.first > 0; };
  std::stable_partition(plan.rows.begin(), plan.rows.end(), decodes);
  for (const PlannedRow& row : plan.rows) {
    Sequence& s = *sequences.at(row.request);
    step.rows.push_back({&s, s.admission, s.planned, row.draws});
  }
  steps.push_back(std::move(step));
  return plan;
}

void Scheduler::State::plan_running(StepPlan& plan) {
  budget = options.max_batched_tokens;
  for (const Sequence* s : running) budget -= s->to_compute() == 1;
  FK_CHECK(budget >= 0);
  // In the order of arrival, so that a request only preempts those that have no row yet.
  for (auto next = running.begin(); next != running.end(); ++next) {
    Sequence& s = **next;
    int64_t wanted = s.to_compute();
    int64_t count = wanted == 1 ? 1 : std::min(wanted, budget);
    if (count == 0) continue;
    int64_t possible = hold_pages(s, count);
    short_of_blocks |= possible < count;
    if (possible == 0) continue;
    if (wanted > 1) budget -= possible;
    add_row(s, possible, plan);
  }
}

// Takes the blocks for its next `count` tokens, or for as many as there are blocks for; to get one token done, it
// preempts those that arrived later. 0: it has to wait until a step in flight gives blocks back or a request ends.
int64_t Scheduler::State::hold_pages(Sequence& s, int64_t count) {
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

void Scheduler::State::add_row(Sequence& s, int64_t count, StepPlan& plan) const {
  PlannedRow row;
  row.request = s.id;
  row.first = s.planned;
  row.count = count;
  row.takes_drawn = s.planned >= s.known();
  row.draws = s.planned + count >= s.known();
  row.first_step = !s.has_run;
  row.blocks = s.blocks;
  row.state_slot = s.slot;
  s.planned += count;
  s.undrawn += row.draws;
  s.has_run = true;
  s.last_step = steps_made + 1;
  plan.rows.push_back(std::move(row));
}

void Scheduler::State::plan_waiting(StepPlan& plan) {
  while (budget > 0 && !waiting.empty() && std::ssize(running) < max_running) {
    Sequence& s = *waiting.front();
    // Preempted, and its last token is still in flight; or all its tokens are drawn and finish() comes.
    if (s.undrawn > 0 || s.all_drawn()) return;
    if (options.has_slots && free_slots.empty()) return;
    if (!admit(s)) return;
    int64_t wanted = std::min(s.to_compute(), budget);
    int64_t count = hold_pages(s, wanted);
    FK_CHECK(count > 0);
    budget -= count;
    add_row(s, count, plan);
    if (count < wanted) return;
  }
}

// Moves the first waiting request to the running ones, with the pages that the prefix cache has of it.
bool Scheduler::State::admit(Sequence& s) {
  int64_t room = pool.available();
  for (const Sequence* r : running) room -= missing_pages(*r);
  if (running.empty() && awaits_blocks()) return false;
  if (!running.empty()) {
    if (room <= 0) return false;
    if (refused == s.id && room <= refused_room && steps_made < refused_at + kLookupInterval) return false;
  }

  // The last token is always computed, since its logits are needed.
  std::vector<int32_t> found;
  PrefixId prefix = kEmptyPrefix;
  int64_t page = options.page_size;
  for (int64_t end = page; shares && end < s.known(); end += page) {
    auto hit =
        pool.find(prefix, std::span(s.tokens).subspan(static_cast<size_t>(end - page), static_cast<size_t>(page)));
    if (hit.block < 0) break;
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

// Its blocks and slot, at once or when the last step in flight that has it is over. The last pages go first, so that
// the prefix cache loses them before the pages that lead to them.
void Scheduler::State::give_back(Sequence& s) {
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

void Scheduler::State::preempt(Sequence& s) {
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

void Scheduler::State::drawn(std::span<const int64_t> tokens) {
  FK_CHECK(!steps.empty(), "no step is in flight");
  StepInFlight& step = steps.front();
  size_t at = 0;
  for (const StepInFlight::Row& row : step.rows) {
    Sequence& s = *row.sequence;
    if (row.draws) {
      FK_CHECK(at < tokens.size(), "a row that draws has no token");
      int64_t token = tokens[at++];
      --s.undrawn;
      if (!s.ended) s.tokens.push_back(token);
    }
    if (s.ended || row.admission != s.admission) continue;
    if (shares) cache_pages(s, row.end);
    free_pages_outside_window(s, row.end);
  }
  FK_CHECK(at == tokens.size(), "there are more tokens than rows that draw");
  for (int32_t block : step.blocks) pool.release(block);
  free_slots.insert(free_slots.end(), step.slots.begin(), step.slots.end());
  steps.pop_front();
}

// Its pages that end at or before `end` are computed and can be shared.
void Scheduler::State::cache_pages(Sequence& s, int64_t end) {
  for (int64_t page = options.page_size; (s.cached_pages + 1) * page <= end; ++s.cached_pages) {
    auto tokens = std::span(s.tokens).subspan(static_cast<size_t>(s.cached_pages * page), static_cast<size_t>(page));
    s.prefix = pool.keep(s.blocks[static_cast<size_t>(s.cached_pages)], s.prefix, tokens);
  }
}

// The step that computed all tokens before `next` is over, and later steps do not see pages that leave the window.
void Scheduler::State::free_pages_outside_window(Sequence& s, int64_t next) {
  for (int64_t end = std::min(first_visible_page(next), std::ssize(s.blocks)); s.first_held < end; ++s.first_held) {
    int32_t& block = s.blocks[static_cast<size_t>(s.first_held)];
    pool.release(block);
    block = -1;
  }
}

void Scheduler::State::finish(RequestId id) {
  auto found = sequences.find(id);
  FK_CHECK(found != sequences.end(), "finish() of a request that is not there");
  Sequence& s = *found->second;
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
  auto visit = [&](const Sequence& s, bool runs) {
    FK_CHECK(s.arrival > arrival, "a request was admitted before an older one");
    arrival = s.arrival;
    FK_CHECK(!s.ended && s.running == runs && sequences.at(s.id).get() == &s);
    FK_CHECK((runs && options.has_slots) == (s.slot >= 0));
    FK_CHECK(runs || (s.blocks.empty() && s.planned == 0));
    FK_CHECK(s.planned <= std::ssize(s.blocks) * options.page_size && s.planned <= s.known() + s.undrawn);
    for (int64_t i = 0; i < std::ssize(s.blocks); ++i)
      FK_CHECK((s.blocks[static_cast<size_t>(i)] < 0) == (i < s.first_held));
    hold(s.blocks);
    if (s.slot >= 0) hold_slot(s.slot);
  };
  for (const Sequence* s : running) visit(*s, true);
  for (const Sequence* s : waiting) visit(*s, false);
  FK_CHECK(sequences.size() == running.size() + waiting.size() && std::ssize(running) <= max_running);
  for (const StepInFlight& step : steps) {
    hold(step.blocks);
    for (int32_t slot : step.slots) hold_slot(slot);
  }
  pool.check(owners);
  for (int32_t slot : free_slots) hold_slot(slot);
  FK_CHECK(!options.has_slots || std::count(slots.begin(), slots.end(), 1) == options.max_sequences, "a slot is lost");
}

Scheduler::Scheduler(const SchedulerOptions& options) : state_(std::make_unique<State>(options)) {}
Scheduler::~Scheduler() = default;

void Scheduler::add(RequestId id, std::vector<int64_t> prompt, int64_t max_tokens) {
  State& state = *state_;
  FK_CHECK(reason_it_never_fits(std::ssize(prompt), max_tokens).empty() && !has(id));
  auto s = std::make_unique<Sequence>();
  s->id = id;
  s->arrival = ++state.arrivals;
  s->prompt_tokens = std::ssize(prompt);
  s->max_tokens = max_tokens;
  s->tokens = std::move(prompt);
  s->place = state.waiting.insert(state.waiting.end(), s.get());
  state.sequences.emplace(id, std::move(s));
}

std::string Scheduler::reason_it_never_fits(int64_t prompt_tokens, int64_t max_tokens) const {
  const SchedulerOptions& options = state_->options;
  if (prompt_tokens < 1) return "The prompt has no tokens; give at least one.";
  if (max_tokens < 1) return fmt::format("max_tokens is {}; ask for at least one token.", max_tokens);
  if (prompt_tokens > options.max_context || max_tokens > options.max_context - prompt_tokens)
    return fmt::format(
        "A prompt of {} tokens and {} tokens of output are more than the context of {} tokens; shorten the prompt or "
        "ask "
        "for fewer tokens.",
        prompt_tokens, max_tokens, options.max_context);
  int64_t tokens = prompt_tokens + max_tokens;
  // In a window, prompts are computed in chunks as small as it takes.
  if (int64_t needed = state_->max_held_pages(tokens, 1); needed > options.blocks)
    return fmt::format(
        "A prompt of {} tokens and {} tokens of output need {} blocks of {} tokens, and the KV cache has {}; shorten "
        "the "
        "prompt, ask for fewer tokens or give the cache more memory.",
        prompt_tokens, max_tokens, needed, options.page_size, options.blocks);
  return "";
}

StepPlan Scheduler::plan() { return state_->plan(); }
void Scheduler::drawn(std::span<const int64_t> tokens) { state_->drawn(tokens); }
void Scheduler::finish(RequestId id) { state_->finish(id); }
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
