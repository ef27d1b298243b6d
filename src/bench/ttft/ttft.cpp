#include "bench/ttft/ttft.h"

#include <fmt/format.h>

#include <cmath>

#include "bench/ttft/probed_iterations.h"
#include "core/error.h"
#include "core/rng.h"
#include "engine/decode_loop.h"
#include "engine/finite_logits.h"
#include "measure/statistics.h"
#include "measure/timer.h"

namespace fk {

double TimedWork::median_ms() const { return median(samples_ms); }
double TimedWork::floor_ms() const { return floors_ms.empty() ? std::nan("") : median(floors_ms); }

double TimedWork::floor_share() const {
  if (floors_ms.empty()) return std::nan("");
  std::vector<double> shares;
  for (size_t i = 0; i < samples_ms.size(); ++i) shares.push_back(fk::floor_share(floors_ms[i], samples_ms[i]));
  return median(shares);
}

std::vector<std::vector<int64_t>> random_prompts(const TtftOptions& options, int64_t iteration, int64_t vocab_size) {
  if (!options.prompt_ids.empty()) {
    for (int64_t id : options.prompt_ids)
      if (id < 0 || id >= vocab_size)
        throw UsageError("The prompt has the token {}, and those of this model are from 0 to {}.", id, vocab_size - 1);
    return std::vector(static_cast<size_t>(options.batch_size), options.prompt_ids);
  }
  Stream stream(options.seed, fmt::format("prompt {}", iteration));
  std::vector<std::vector<int64_t>> prompts(static_cast<size_t>(options.batch_size));
  uint64_t at = 0;
  for (std::vector<int64_t>& prompt : prompts)
    for (int64_t i = 0; i < options.prompt_tokens; ++i)
      prompt.push_back(static_cast<int64_t>(stream.below(at++, static_cast<uint64_t>(vocab_size))));
  return prompts;
}

namespace {

// Times of one iteration, in ms.
struct IterationTimes {
  double prefill = 0;
  double sequential = 0;
  double decode = 0;
};

// One iteration's sequences: prompts, then tokens drawn from them.
class Iteration {
 public:
  Iteration(ModelExecutor& executor, DecodeLoop& loop, const TtftOptions& options,
            const std::vector<std::vector<int64_t>>& prompts)
      : executor_(executor), loop_(loop), options_(options), prompts_(prompts) {}

  IterationTimes run() {
    IterationTimes sample;
    if (options_.sequential) {
      begin();
      start_loop(column(0), options_.prompt_tokens);
      sample.sequential = time([&] {
        loop_.step();
        for (int64_t i = 1; i < options_.prompt_tokens; ++i) loop_.step_with(column(i));
      });
      end();
    }
    begin();
    std::vector<NewTokens> items;
    for (size_t i = 0; i < prompts_.size(); ++i) items.push_back({&sequences_[i], prompts_[i]});
    sample.prefill = time([&] { executor_.forward(items); });
    start_loop(column(0), options_.decode_tokens);  // the first tokens do not affect the time
    loop_.step();                                   // warm-up: the first step after a prompt has colder caches
    executor_.wait();
    sample.decode = time([&] {
      for (int64_t i = 1; i < options_.decode_tokens; ++i) loop_.step();
    });
    sample.decode /= static_cast<double>(options_.decode_tokens - 1);
    require_finite_logits(executor_.model(), loop_.logits());
    end();
    return sample;
  }

 private:
  void begin() {
    for (size_t i = 0; i < prompts_.size(); ++i) sequences_.push_back(executor_.start());
  }
  void end() {
    for (RunningSequence& sequence : sequences_) executor_.finish(sequence);
    sequences_.clear();
  }

  // Token i of every prompt.
  std::vector<int64_t> column(int64_t i) const {
    std::vector<int64_t> tokens;
    for (const std::vector<int64_t>& prompt : prompts_) tokens.push_back(prompt[static_cast<size_t>(i)]);
    return tokens;
  }

  void start_loop(const std::vector<int64_t>& tokens, int64_t steps) {
    std::vector<RunningSequence*> all;
    for (RunningSequence& sequence : sequences_) all.push_back(&sequence);
    std::vector<SamplingParams> greedy(all.size());
    std::vector<int64_t> drawn(all.size());
    loop_.start(all, tokens, greedy, drawn, steps);
    executor_.wait();
  }

  template <class Work>
  double time(Work&& work) const {
    if (Communicator* ranks = executor_.model().communicator; ranks != nullptr) ranks->barrier();
    int64_t start = now_ns();
    work();
    executor_.wait();
    return static_cast<double>(now_ns() - start) / kNsPerMs;
  }

  ModelExecutor& executor_;
  DecodeLoop& loop_;
  const TtftOptions& options_;
  const std::vector<std::vector<int64_t>>& prompts_;
  std::vector<RunningSequence> sequences_;
};

}  // namespace

void check_options(const TtftOptions& options) {
  if (options.prompt_tokens < 1) throw UsageError("--prompt-tokens must be at least 1.");
  if (options.decode_tokens < 2)
    throw UsageError("--decode-tokens must be at least 2: one warms up, the rest are timed.");
  if (options.batch_size < 1) throw UsageError("--batch-size must be at least 1.");
  if (options.iters < 1) throw UsageError("--iters must be at least 1.");
  if (options.warmups < 0) throw UsageError("--warmups cannot be negative.");
}

TtftResult run_ttft(const Model& model, ThreadPool& pool, const TtftOptions& options) {
  check_options(options);
  return is_stateless(model.config.facts.task) ? run_encoder_ttft(model, pool, options)
                                               : run_causal_ttft(model, pool, options);
}

TtftResult run_causal_ttft(const Model& model, ThreadPool& pool, const TtftOptions& options) {
  int64_t total = options.prompt_tokens + options.decode_tokens;
  ModelExecutor executor(model, pool,
                         {.max_sequences = options.batch_size,
                          .max_context = total,
                          .max_step_tokens = options.prompt_tokens * options.batch_size});
  DecodeLoop loop(executor, options.batch_size);
  TtftResult result;
  result.decode.emplace();
  if (options.sequential) result.sequential.emplace();
  ProbedIterations iterations(model, pool, options);
  iterations.run(
      [&](int64_t i) {
        std::vector<std::vector<int64_t>> prompts = random_prompts(options, i, model.config.facts.vocab_size);
        IterationTimes sample = Iteration(executor, loop, options, prompts).run();
        if (i < 0) return;
        result.prefill.samples_ms.push_back(sample.prefill);
        result.decode->samples_ms.push_back(sample.decode);
        if (result.sequential) result.sequential->samples_ms.push_back(sample.sequential);
      },
      result);
  iterations.set_floors(result.prefill, {iterations.one_pass(options.batch_size, options.prompt_tokens, 0)});
  // Every decode step reads one more key; the middle step is the mean.
  iterations.set_floors(
      *result.decode, {iterations.one_pass(options.batch_size, 1, options.prompt_tokens + options.decode_tokens / 2)});
  if (result.sequential) {
    std::vector<Workload> passes;
    for (int64_t t = 0; t < options.prompt_tokens; ++t) passes.push_back(iterations.one_pass(options.batch_size, 1, t));
    iterations.set_floors(*result.sequential, passes);
  }
  return result;
}

}  // namespace fk
