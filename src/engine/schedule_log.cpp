#include "engine/schedule_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <istream>
#include <iterator>
#include <optional>
#include <ostream>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"

namespace fk {
namespace {

// The fields of the options by name, in the order of the log.
template <class Options, class Visit>
void each_option(Options& o, Visit visit) {
  visit("max_batched_tokens", o.max_batched_tokens);
  visit("max_sequences", o.max_sequences);
  visit("max_context", o.max_context);
  visit("page_size", o.page_size);
  visit("blocks", o.blocks);
  visit("prefix_cache", o.prefix_cache);
  visit("sliding_window", o.sliding_window);
  visit("growth_tokens", o.growth_tokens);
  visit("has_slots", o.has_slots);
  visit("num_speculative_tokens", o.speculative.num_speculative_tokens);
  visit("prompt_lookup_max", o.speculative.prompt_lookup_max);
  visit("prompt_lookup_min", o.speculative.prompt_lookup_min);
  visit("draft_model", o.speculative.method);
  visit("max_prompt_logits", o.max_prompt_logits);
}

std::string numbers(std::span<const int64_t> list) {
  std::string text;
  for (int64_t number : list) fmt::format_to(std::back_inserter(text), " {}", number);
  return text;
}

// Words of one line, taken from the front.
class Words {
 public:
  Words(std::string_view line, int64_t number) : rest_(line), number_(number) {}

  [[noreturn]] void fail(std::string_view why) const { throw Error("Line {} of the log {}.", number_, why); }
  bool empty() const { return rest_.empty(); }
  std::string_view word() {
    std::string_view word = rest_.substr(0, rest_.find(' '));
    if (word.empty()) fail("ends too early");
    rest_.remove_prefix(std::min(rest_.size(), word.size() + 1));
    return word;
  }
  // A number, after "name=" if there is a name.
  int64_t number(std::string_view name = "") {
    std::string_view word = this->word();
    if (!name.empty()) {
      if (!word.starts_with(name) || word.substr(name.size(), 1) != "=") fail(fmt::format("has no {} there", name));
      word.remove_prefix(name.size() + 1);
    }
    int64_t value = 0;
    auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) fail("has a word where a number must be");
    return value;
  }
  std::vector<int64_t> numbers() {
    std::vector<int64_t> list;
    while (!empty()) list.push_back(number());
    return list;
  }

 private:
  std::string_view rest_;
  int64_t number_;
};

SchedulerOptions read_options(Words& words) {
  SchedulerOptions options;
  if (words.word() != "options") words.fail("must begin with \"options\"");
  each_option(options, [&](std::string_view name, auto& field) {
    field = static_cast<std::remove_reference_t<decltype(field)>>(words.number(name));
  });
  if (options.max_batched_tokens < 1 || options.max_sequences < 1 || options.page_size < 1 || options.blocks < 1 ||
      options.max_prompt_logits < 1 || options.sliding_window < 0 || options.speculative.num_speculative_tokens < 0 ||
      options.speculative.prompt_lookup_min < 1 ||
      options.speculative.prompt_lookup_max < options.speculative.prompt_lookup_min ||
      options.speculative.method > SpeculativeMethod::kEagle3 ||
      (options.has_slots && options.speculative.num_speculative_tokens > 0))
    words.fail("has options that no scheduler can have");
  return options;
}

}  // namespace

ScheduleLog::ScheduleLog(std::ostream& out, const SchedulerOptions& options) : out_(out) {
  out_ << "options";
  each_option(options, [&](std::string_view name, auto field) {
    out_ << fmt::format(" {}={}", name, static_cast<int64_t>(field));
  });
  out_ << '\n';
}

void ScheduleLog::add(RequestId id, std::span<const int64_t> prompt, int64_t max_tokens, bool speculates,
                      bool prompt_logits) {
  out_ << fmt::format("add {} max_tokens={} speculates={} {}prompt{}\n", id, max_tokens, speculates ? 1 : 0,
                      prompt_logits ? "logits " : "", numbers(prompt));
}
// Plans and ends reach the file at once, so that the log of a process that crashes shows the step.
void ScheduleLog::plan(const StepPlan& plan) { out_ << plan_text(plan) << '\n' << std::flush; }
void ScheduleLog::guessed(std::span<const int64_t> tokens) { out_ << fmt::format("guessed{}\n", numbers(tokens)); }
void ScheduleLog::drawn(std::span<const int64_t> tokens) { out_ << fmt::format("drawn{}\n", numbers(tokens)); }
void ScheduleLog::finish(RequestId id) { out_ << fmt::format("finish {}\n", id); }

std::string plan_text(const StepPlan& plan) {
  std::string text = "plan";
  uint32_t sum = 2166136261u;
  auto add = [&](int64_t value) { sum = (sum ^ static_cast<uint32_t>(value)) * 16777619u; };
  for (const PlannedRow& row : plan.rows) {
    fmt::format_to(std::back_inserter(text), " {}:{}+{}{}{}", row.request, row.first, row.count,
                   row.takes_drawn ? "t" : "", row.draws ? "d" : "");
    if (!row.drafts.empty()) fmt::format_to(std::back_inserter(text), "g{}", row.drafts.size());
    if (row.prompt_logits > 0) fmt::format_to(std::back_inserter(text), "p{}", row.prompt_logits);
    for (int64_t draft : row.drafts) add(draft);
    add(row.first_step);
    add(row.state_slot);
    for (int32_t block : row.blocks) add(block);
  }
  fmt::format_to(std::back_inserter(text), " #{:08x}", sum);
  return text;
}

int64_t replay_schedule(std::istream& log, const std::function<void(const Scheduler&, const StepPlan&)>& observe) {
  std::optional<Scheduler> scheduler;
  bool drafts = false;         // a draft model guesses
  std::vector<int64_t> draws;  // tokens that the steps in flight draw
  int64_t unknown = 0;         // guesses of the last one that a draft model gives
  int64_t calls = 0;
  int64_t number = 0;
  for (std::string line; std::getline(log, line); ++calls) {
    Words words(line, ++number);
    if (!scheduler) {
      const SchedulerOptions options = read_options(words);
      drafts = options.speculative.has_draft_model();
      scheduler.emplace(options);
      continue;
    }
    std::string_view call = words.word();
    if (call == "add") {
      auto id = static_cast<RequestId>(words.number());
      int64_t max_tokens = words.number("max_tokens");
      bool speculates = words.number("speculates") != 0;
      std::string_view word = words.word();
      const bool prompt_logits = word == "logits";
      if (prompt_logits) word = words.word();
      if (word != "prompt") words.fail("has no prompt");
      std::vector<int64_t> prompt = words.numbers();
      std::string reason = scheduler->reason_it_never_fits(std::ssize(prompt), max_tokens);
      if (!reason.empty() || scheduler->has(id)) words.fail("adds a request that does not fit or is there already");
      scheduler->add(id, std::move(prompt), max_tokens, speculates, prompt_logits);
    } else if (call == "plan") {
      if (draws.size() == 2) words.fail("plans a third step while two are in flight");
      StepPlan plan = scheduler->plan();
      if (plan_text(plan) != line)
        throw Error("Line {} of the log has another plan than this scheduler makes, which is: {}", number,
                    plan_text(plan));
      if (!plan.empty()) draws.push_back(plan.drawn_tokens());
      unknown = drafts ? plan.guesses() : 0;
      if (observe) observe(*scheduler, plan);
    } else if (call == "guessed") {
      std::vector<int64_t> tokens = words.numbers();
      if (tokens.empty() || std::exchange(unknown, 0) != std::ssize(tokens) || draws.empty())
        words.fail("guesses for other rows than were planned");
      scheduler->guessed(tokens);
    } else if (call == "drawn") {
      std::vector<int64_t> tokens = words.numbers();
      if (draws.empty() || draws.front() != std::ssize(tokens)) words.fail("draws other rows than were planned");
      draws.erase(draws.begin());
      scheduler->drawn(tokens);
    } else if (call == "finish") {
      auto id = static_cast<RequestId>(words.number());
      if (!scheduler->has(id)) words.fail("ends a request that is not there");
      scheduler->finish(id);
    } else {
      words.fail(fmt::format("has the unknown call \"{}\"", call));
    }
    scheduler->check();
  }
  if (!scheduler) throw Error("The log is empty.");
  return calls;
}

}  // namespace fk
