#include "tests/engine/scheduler_simulation.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace fk {
namespace {

uint64_t mix(uint64_t hash, int64_t token) {
  hash = (hash ^ static_cast<uint64_t>(token + 1)) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

}  // namespace

SchedulerSimulation::SchedulerSimulation(const SimulatedLoad& load, uint64_t seed)
    : load_(load),
      scheduler_(load.options),
      random_(seed, "simulation"),
      memory_(static_cast<size_t>(load.options.blocks * load.options.page_size)),
      slots_(static_cast<size_t>(load.options.max_sequences), 1) {
  scheduler_.log_to(log_);
}

int64_t SchedulerSimulation::next_token(uint64_t hash, int64_t last) const {
  if (static_cast<double>(hash >> 50) < load_.repeats * 0x1p14) return (last * 7 + 3) % load_.vocabulary;
  return static_cast<int64_t>((hash >> 17) % static_cast<uint64_t>(load_.vocabulary));
}

std::vector<int64_t> SchedulerSimulation::alone(const std::vector<int64_t>& prompt, int64_t max_tokens) const {
  std::vector<int64_t> tokens = prompt;
  uint64_t hash = 0;
  for (int64_t token : prompt) hash = mix(hash, token);
  for (int64_t i = 0; i < max_tokens; ++i) {
    tokens.push_back(next_token(hash, tokens.back()));
    if (tokens.back() == 0) break;
    hash = mix(hash, tokens.back());
  }
  return tokens;
}

void SchedulerSimulation::run() {
  double due = 0;
  while (!testing::Test::HasFailure()) {
    bool more = std::ssize(requests_) < load_.requests;
    if (!more && scheduler_.idle() && in_flight_.empty()) break;
    due += more ? load_.arrivals * 2 * chance() : 0;
    for (; due >= 1 && std::ssize(requests_) < load_.requests; --due) arrive();
    if (chance() < load_.cancel) cancel_one();

    int64_t before = steps_;
    if (in_flight_.size() < 2) plan();
    bool waits = in_flight_.size() == 2 || (steps_ > before && chance() >= load_.run_ahead) || steps_ == before;
    if (chance() < load_.cancel) cancel_one();
    if (waits && !in_flight_.empty()) complete_oldest();
  }
  stats_ = scheduler_.stats();
  EXPECT_EQ(stats_.blocks_used, 0);
  EXPECT_EQ(stats_.running + stats_.waiting, 0);
}

void SchedulerSimulation::arrive() {
  Simulated s;
  if (!requests_.empty() && chance() < load_.shared_prefix) {
    auto id = static_cast<RequestId>(below(std::ssize(requests_)) + 1);
    const std::vector<int64_t>& other = requests_.at(id).tokens;
    s.tokens.assign(other.begin(), other.begin() + below(std::ssize(other) + 1));
    s.tokens.resize(std::min(s.tokens.size(), static_cast<size_t>(load_.max_prompt)));
  }
  int64_t length = 1 + below(load_.max_prompt);
  while (std::ssize(s.tokens) < length) s.tokens.push_back(below(load_.vocabulary));
  s.prompt = s.told = std::ssize(s.tokens);
  s.max_tokens = chance() < load_.no_output ? 0 : 1 + below(load_.max_output);
  s.wants_logits = chance() < load_.prompt_logits;
  RequestId id = requests_.size() + 1;
  // One that can never fit is refused; it counts as ended.
  s.live = scheduler_.reason_it_never_fits(s.prompt, s.max_tokens).empty();
  if (s.live) {
    scheduler_.add(id, s.tokens, s.max_tokens, chance() < 0.8, s.wants_logits);
    live_.insert(id);
    s.last_step = steps_ + 2 * (s.prompt + s.max_tokens);
    for (RequestId other : live_)
      if (other != id) s.last_step += 2 * (requests_.at(other).prompt + requests_.at(other).max_tokens);
  }
  requests_.emplace(id, std::move(s));
  scheduler_.check();
}

void SchedulerSimulation::cancel_one() {
  if (live_.empty()) return;
  auto victim = live_.begin();
  std::advance(victim, below(std::ssize(live_)));
  end(*victim);
}

void SchedulerSimulation::end(RequestId id) {
  scheduler_.finish(id);
  EXPECT_FALSE(scheduler_.has(id));
  requests_.at(id).live = false;
  live_.erase(id);
  EXPECT_LE(steps_, requests_.at(id).last_step) << "request " << id << " waited longer than the bound";
  scheduler_.check();
}

void SchedulerSimulation::plan() {
  StepPlan plan = scheduler_.plan();
  scheduler_.check();
  EXPECT_TRUE(!plan.empty() || !in_flight_.empty() || scheduler_.idle()) << "requests wait, and nothing runs";
  if (plan.empty()) return;
  check_plan(plan);
  check_prompt_logits(plan);
  if (load_.options.speculative.has_draft_model()) guess(plan);
  ++steps_;
  ahead_ += !in_flight_.empty();
  in_flight_.push_back(std::move(plan));
}

// As a draft model does: what the request would draw, or something else.
void SchedulerSimulation::guess(StepPlan& plan) {
  std::vector<int64_t> all;
  for (PlannedRow& row : plan.rows) {
    for (int64_t draft : row.drafts) EXPECT_EQ(draft, kUnknownGuess);
    if (row.drafts.empty()) continue;
    const Simulated& s = requests_.at(row.request);
    const std::vector<int64_t> right = alone(s.tokens, std::ssize(row.drafts));
    for (size_t i = 0; i < row.drafts.size(); ++i) {
      const size_t at = s.tokens.size() + i;
      row.drafts[i] = at < right.size() && chance() < load_.right_guesses ? right[at] : below(load_.vocabulary);
    }
    all.insert(all.end(), row.drafts.begin(), row.drafts.end());
  }
  if (!all.empty()) scheduler_.guessed(all);
}

void SchedulerSimulation::check_plan(const StepPlan& plan) const {
  EXPECT_LE(plan.tokens(), load_.options.max_batched_tokens);
  EXPECT_LE(std::ssize(plan.rows), load_.options.max_sequences);
  auto decodes = [](const PlannedRow& row) { return row.count == 1 && row.first > 0; };
  EXPECT_TRUE(std::is_partitioned(plan.rows.begin(), plan.rows.end(), decodes));
  std::set<RequestId> seen;
  std::set<int32_t> slots;
  for (const PlannedRow& row : plan.rows) {
    EXPECT_TRUE(seen.insert(row.request).second) << "a request has two rows";
    EXPECT_TRUE(row.state_slot < 0 || slots.insert(row.state_slot).second) << "two requests have one slot";
    EXPECT_EQ(row.state_slot >= 0, load_.options.has_slots);
    const Simulated& s = requests_.at(row.request);
    EXPECT_TRUE(s.live);
    EXPECT_GT(row.count, 0);
    EXPECT_LE(row.first + row.count, s.prompt + s.max_tokens);
    EXPECT_GE(std::ssize(row.blocks) * load_.options.page_size, row.first + row.count);
    if (row.takes_drawn) {
      EXPECT_EQ(row.count, 1);
      EXPECT_EQ(row.first, s.told);
      ASSERT_EQ(in_flight_.size(), 1u) << "the previous step is over, so its tokens are known";
      const auto& rows = in_flight_.front().rows;
      EXPECT_TRUE(std::any_of(rows.begin(), rows.end(),
                              [&](const PlannedRow& r) { return r.request == row.request && r.draws; }));
    } else {
      EXPECT_LE(row.first + row.count - std::ssize(row.drafts), s.told);
    }
    EXPECT_LE(std::ssize(row.drafts), load_.options.speculative.num_speculative_tokens);
    if (!row.drafts.empty()) {
      EXPECT_EQ(row.first + 1, s.told) << "guesses follow the last token there is";
      EXPECT_EQ(row.count, 1 + std::ssize(row.drafts));
      EXPECT_TRUE(row.draws);
      EXPECT_LT(s.told + std::ssize(row.drafts), s.prompt + s.max_tokens) << "all of them may be right";
    }
    // No step in flight has another request on the pages or in the slot that this step writes to.
    int64_t page = load_.options.page_size;
    for (int64_t p = row.first / page; p <= (row.first + row.count - 1) / page; ++p) {
      for (const StepPlan& step : in_flight_)
        for (const PlannedRow& other : step.rows) {
          if (other.request == row.request) continue;
          int64_t window = load_.options.sliding_window;
          int64_t seen_from = window > 0 ? std::max<int64_t>(0, other.first + other.count - window) / page : 0;
          for (int64_t q = seen_from; q < std::ssize(other.blocks); ++q)
            EXPECT_NE(other.blocks[static_cast<size_t>(q)], row.blocks[static_cast<size_t>(p)]);
          EXPECT_TRUE(row.state_slot < 0 || other.state_slot != row.state_slot);
        }
    }
  }
}

// Those of all positions but the prompt's last, one after the other, before the first token is drawn.
void SchedulerSimulation::check_prompt_logits(const StepPlan& plan) {
  EXPECT_LE(plan.prompt_logits(), load_.options.max_prompt_logits);
  for (const PlannedRow& row : plan.rows) {
    Simulated& s = requests_.at(row.request);
    prompt_logits_ += row.prompt_logits;
    if (!s.wants_logits || s.told > s.prompt || row.takes_drawn) {
      EXPECT_EQ(row.prompt_logits, 0);
      continue;
    }
    if (row.first == 0) s.logits = 0;
    EXPECT_EQ(row.first, s.logits) << "request " << row.request << " has no logits of a part of its prompt";
    s.logits += row.prompt_logits;
    EXPECT_EQ(s.logits, std::min(row.first + row.count, s.prompt - 1));
  }
}

SchedulerSimulation::Cell& SchedulerSimulation::cell(const PlannedRow& row, int64_t position) {
  int64_t page = load_.options.page_size;
  if (position / page >= std::ssize(row.blocks)) throw std::logic_error("a page is not in the table");
  int32_t block = row.blocks[static_cast<size_t>(position / page)];
  if (block < 0) throw std::logic_error("a page that is needed was freed");
  return memory_.at(static_cast<size_t>(block * page + position % page));
}
const SchedulerSimulation::Cell& SchedulerSimulation::cell(const PlannedRow& row, int64_t position) const {
  return const_cast<SchedulerSimulation*>(this)->cell(row, position);
}

std::vector<SchedulerSimulation::Cell> SchedulerSimulation::cells(const PlannedRow& row) const {
  const std::vector<int64_t>& known = requests_.at(row.request).tokens;
  const auto end = static_cast<size_t>(row.first + row.count);
  std::vector<int64_t> tokens(known.begin(), known.begin() + static_cast<int64_t>(end - row.drafts.size()));
  tokens.insert(tokens.end(), row.drafts.begin(), row.drafts.end());
  std::vector<Cell> own;
  for (uint64_t hash = 0; own.size() < end;) {
    const int64_t token = tokens[own.size()];
    hash = mix(hash, token);
    own.push_back({std::ssize(own), hash, token});
  }
  return own;
}

int64_t SchedulerSimulation::first_visible(const PlannedRow& row) const {
  int64_t window = load_.options.sliding_window;
  return window > 0 ? std::max<int64_t>(0, row.first - window + 1) : 0;
}

void SchedulerSimulation::expect_visible(const PlannedRow& row, const std::vector<Cell>& own, int64_t end) const {
  for (int64_t i = first_visible(row); i < end; ++i)
    ASSERT_EQ(cell(row, i), own[static_cast<size_t>(i)])
        << "request " << row.request << " finds something else at position " << i;
}

void SchedulerSimulation::execute(const StepPlan& plan) {
  std::vector<std::vector<Cell>> own;
  // Pages that this step completes may be read by others of it.
  std::map<const Cell*, RequestId> written;
  for (const PlannedRow& row : plan.rows)
    for (int64_t i = row.first; i < row.first + row.count; ++i)
      ASSERT_TRUE(written.emplace(&cell(row, i), row.request).second) << "two rows write to one place";
  for (const PlannedRow& row : plan.rows) {
    const Simulated& s = requests_.at(row.request);
    own.emplace_back();
    if (s.broken) continue;
    ASSERT_GE(std::ssize(s.tokens), row.first + row.count - std::ssize(row.drafts));
    own.back() = cells(row);
    // What earlier steps left, before this step writes anything.
    for (int64_t i = first_visible(row); i < row.first; ++i) {
      auto writer = written.find(&cell(row, i));
      early_reads_ += writer != written.end();
      if (writer != written.end())
        ASSERT_GT(row.count, 1) << "rows of one token are computed apart from prompts";
      else
        ASSERT_EQ(cell(row, i), own.back()[static_cast<size_t>(i)])
            << "request " << row.request << " finds something else at position " << i;
    }
    if (row.state_slot < 0) continue;
    uint64_t& state = slots_.at(static_cast<size_t>(row.state_slot));
    if (row.first_step) state = 0;
    ASSERT_EQ(state, row.first == 0 ? 0 : own.back()[static_cast<size_t>(row.first - 1)].hash)
        << "request " << row.request;
    state = own.back().back().hash;
  }
  for (size_t r = 0; r < plan.rows.size(); ++r) {
    const PlannedRow& row = plan.rows[r];
    for (int64_t i = row.first; i < row.first + row.count; ++i)
      cell(row, i) = own[r].empty() ? Cell{} : own[r][static_cast<size_t>(i)];
  }
  for (size_t r = 0; r < plan.rows.size(); ++r)
    if (!own[r].empty()) expect_visible(plan.rows[r], own[r], plan.rows[r].first + plan.rows[r].count);
}

void SchedulerSimulation::complete_oldest() {
  StepPlan plan = std::move(in_flight_.front());
  in_flight_.pop_front();
  bool fails = chance() < load_.fail;
  if (fails)
    for (const PlannedRow& row : plan.rows) {
      requests_.at(row.request).broken = true;
      if (live_.contains(row.request)) end(row.request);
    }
  execute(plan);
  if (testing::Test::HasFatalFailure()) return;

  std::vector<int64_t> drawn;
  std::vector<RequestId> ended;
  for (const PlannedRow& row : plan.rows) {
    Simulated& s = requests_.at(row.request);
    EXPECT_TRUE(s.broken || row.draws == (row.first + row.count - std::ssize(row.drafts) == std::ssize(s.tokens)));
    if (!row.draws) continue;
    bool right = true;  // all guesses before it
    for (int64_t i = 0; i <= std::ssize(row.drafts); ++i) {
      const Cell& last = cell(row, row.first + row.count - 1 - std::ssize(row.drafts) + i);
      drawn.push_back(next_token(last.hash, last.token));
      if (!s.broken && right) s.tokens.push_back(drawn.back());
      right = right && i < std::ssize(row.drafts) && drawn.back() == row.drafts[static_cast<size_t>(i)];
    }
    if (s.broken) continue;
    // The client of a request sees the end of the text before the tokens after it.
    auto end_of_text = std::find(s.tokens.begin() + s.told, s.tokens.end(), 0);
    s.told = std::ssize(s.tokens);
    if (!s.live) continue;
    if (end_of_text != s.tokens.end()) {
      s.tokens.erase(end_of_text + 1, s.tokens.end());
      s.told = std::ssize(s.tokens);
    }
    const int64_t most = std::max<int64_t>(s.max_tokens, 1);
    if (s.tokens.back() == 0 || s.told == s.prompt + most) {
      s.complete = true;
      ended.push_back(row.request);
      std::vector<int64_t> prompt(s.tokens.begin(), s.tokens.begin() + s.prompt);
      EXPECT_EQ(s.tokens, alone(prompt, most));
    }
  }
  // A caller may learn that a request ends before or after it tells the scheduler the tokens.
  bool first = chance() < 0.5;
  if (first)
    for (RequestId id : ended) end(id);
  scheduler_.drawn(drawn);
  scheduler_.check();
  if (!first)
    for (RequestId id : ended) end(id);
}

}  // namespace fk
