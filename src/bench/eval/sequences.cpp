#include "bench/eval/sequences.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/check.h"
#include "core/device_runtime.h"
#include "core/rng.h"
#include "engine/finite_logits.h"

namespace fk {

TokenRows eval_prompts(uint64_t seed, std::string_view purpose, int64_t count, int64_t tokens, int64_t vocab_size) {
  Stream stream(seed, fmt::format("eval {}", purpose));
  TokenRows prompts(static_cast<size_t>(count));
  uint64_t at = 0;
  for (std::vector<int64_t>& prompt : prompts)
    for (int64_t i = 0; i < tokens; ++i)
      prompt.push_back(static_cast<int64_t>(stream.below(at++, static_cast<uint64_t>(vocab_size))));
  return prompts;
}

BatchedSequences::BatchedSequences(const Model& model, ThreadPool& pool, const EngineOptions& options)
    : executor_(model, pool, options),
      loop_(executor_, options.max_sequences),
      sampler_(options.max_sequences, BuildOptions{.device = model.device}) {}

TokenRows BatchedSequences::draw(const TokenRows& prompts, int64_t steps, const Visitor& visit) {
  return run(prompts, nullptr, steps, visit);
}

void BatchedSequences::force(const TokenRows& prompts, const TokenRows& tokens, const Visitor& visit) {
  FK_CHECK(tokens.size() == prompts.size() && !tokens.empty());
  run(prompts, &tokens, static_cast<int64_t>(tokens.front().size()), visit);
}

void BatchedSequences::show(int64_t step, int64_t first_row, const View& logits, const Visitor& visit) {
  if (!visit) return;
  int64_t rows = logits.size(0), width = logits.size(1);
  host_.resize(static_cast<size_t>(rows * width));
  executor_.wait();
  copy_between(logits, View(host_.data(), Shape{rows, width}, DType::kF32));
  for (int64_t row = 0; row < rows; ++row)
    visit(step, first_row + row, {host_.data() + row * width, static_cast<size_t>(width)});
}

TokenRows BatchedSequences::run(const TokenRows& prompts, const TokenRows* forced, int64_t steps,
                                const Visitor& visit) {
  FK_CHECK(static_cast<int64_t>(prompts.size()) <= executor_.options().max_sequences && steps > 0);
  std::vector<RunningSequence> sequences;
  for (size_t i = 0; i < prompts.size(); ++i) sequences.push_back(executor_.start());
  const std::vector<SamplingParams> greedy(prompts.size());
  TokenRows rows(prompts.size());
  std::vector<int64_t> next(prompts.size());

  // Whole prompts together as long as they fit a step; a longer one alone, in chunks.
  for (size_t first = 0; first < prompts.size();) {
    std::vector<NewTokens> items;
    int64_t tokens = 0;
    size_t end = first;
    for (; end < prompts.size(); ++end) {
      tokens += static_cast<int64_t>(prompts[end].size());
      if (end > first && tokens > executor_.options().max_step_tokens) break;
      items.push_back({&sequences[end], prompts[end]});
    }
    View logits = items.size() == 1 ? executor_.prefill(sequences[first], prompts[first]) : executor_.forward(items);
    Context ctx = executor_.context();
    const std::vector<int64_t> none(items.size());
    std::span<const int64_t> drawn = sampler_.pick(ctx, logits, {greedy.data(), items.size()}, none);
    std::copy(drawn.begin(), drawn.end(), next.begin() + static_cast<std::ptrdiff_t>(first));
    show(0, static_cast<int64_t>(first), logits, visit);
    first = end;
  }

  auto take = [&](int64_t step) {
    for (size_t i = 0; i < rows.size(); ++i) {
      if (forced != nullptr) next[i] = (*forced)[i][static_cast<size_t>(step)];
      rows[i].push_back(next[i]);
    }
  };
  take(0);
  if (steps > 1) {
    std::vector<RunningSequence*> all;
    for (RunningSequence& sequence : sequences) all.push_back(&sequence);
    const std::vector<int64_t> drawn(all.size(), 1);
    loop_.start(all, next, greedy, drawn, steps - 1);
    for (int64_t step = 1; step < steps; ++step) {
      if (step == 1 || forced == nullptr)
        loop_.step();
      else
        loop_.step_with(next);
      show(step, 0, loop_.logits(), visit);
      if (forced == nullptr) {
        std::span<const int64_t> tokens = loop_.drawn();
        std::copy(tokens.begin(), tokens.end(), next.begin());
      }
      take(step);
    }
    require_finite_logits(executor_.model(), loop_.logits());
  }
  for (RunningSequence& sequence : sequences) executor_.finish(sequence);
  return rows;
}

}  // namespace fk
