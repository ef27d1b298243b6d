#include "bench/ttft/ttft_outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/memory.h"
#include "engine/decode_loop.h"
#include "engine/encoder.h"

namespace fk {
namespace {

// FNV-1a.
class Hash {
 public:
  void add(const void* data, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) value_ = (value_ ^ static_cast<const uint8_t*>(data)[i]) * 0x100000001b3u;
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325u;
};

void keep_numbers(TtftOutputs& outputs, const View& on_device) {
  constexpr int64_t kMost = 256;
  Tensor host(on_device.spec());
  copy_elements(on_device, host.view());
  Hash hash;
  hash.add(host.view().data(), host.view().size_bytes());
  outputs.bits = hash.value();
  const View row = host.view().select(0, 0);
  for (int64_t i = 0; i < std::min(row.numel(), kMost); ++i) outputs.numbers.push_back(get(row, i));
}

double margin_of(const float* logits, int64_t count) {
  float best = -INFINITY, second = -INFINITY, largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    second = std::max(second, std::min(best, logits[i]));
    best = std::max(best, logits[i]);
    largest = std::max(largest, std::abs(logits[i]));
  }
  return count < 2 || largest == 0 ? 0 : static_cast<double>(best - second) / static_cast<double>(largest);
}

TtftOutputs outputs_of_prompts(const Model& model, ThreadPool& pool, const TtftOptions& options) {
  TtftOutputs outputs;
  const std::vector<std::vector<int64_t>> prompts = random_prompts(options, 0, model.config.facts.vocab_size);
  Hash hash;
  for (const std::vector<int64_t>& prompt : prompts) hash.add(prompt.data(), prompt.size() * sizeof(int64_t));
  outputs.prompts_hash = hash.value();
  ModelExecutor executor(model, pool,
                         {.max_sequences = options.batch_size,
                          .max_context = options.prompt_tokens + options.decode_tokens,
                          .max_step_tokens = options.prompt_tokens * options.batch_size});
  DecodeLoop loop(executor, options.batch_size);
  std::vector<RunningSequence> sequences(prompts.size());
  std::vector<NewTokens> items;
  std::vector<RunningSequence*> all;
  for (size_t i = 0; i < prompts.size(); ++i) {
    sequences[i] = executor.start();
    items.push_back({&sequences[i], prompts[i]});
    all.push_back(&sequences[i]);
  }
  const View logits = executor.forward(items);
  executor.wait();
  keep_numbers(outputs, logits);
  // The tokens after the prompts are drawn by the loop; it starts with the last of each prompt, as the measurement
  // does.
  std::vector<int64_t> last;
  for (const std::vector<int64_t>& prompt : prompts) last.push_back(prompt.back());
  loop.start(all, last, std::vector<SamplingParams>(all.size()), std::vector<int64_t>(all.size()),
             options.decode_tokens);
  outputs.tokens.resize(prompts.size());
  outputs.margins.resize(prompts.size());
  Tensor host(loop.logits().spec());
  for (int64_t step = 0; step < options.decode_tokens; ++step) {
    loop.step();
    const std::span<const int64_t> drawn = loop.drawn();
    copy_elements(loop.logits(), host.view());
    const int64_t vocabulary = host.view().size(1);
    for (size_t i = 0; i < drawn.size(); ++i) {
      outputs.tokens[i].push_back(drawn[i]);
      outputs.margins[i].push_back(margin_of(host.ptr<float>() + static_cast<int64_t>(i) * vocabulary, vocabulary));
    }
  }
  for (RunningSequence& sequence : sequences) executor.finish(sequence);
  return outputs;
}

TtftOutputs outputs_of_encoder(const Model& model, ThreadPool& pool, const TtftOptions& options) {
  TtftOutputs outputs;
  std::unique_ptr<Encoder> encoder = make_encoder(model, pool);
  const EncoderInput input = encoder->random_input(options.batch_size, options.prompt_tokens, options.seed);
  Hash hash;
  for (const std::vector<int64_t>& text : input.texts) hash.add(text.data(), text.size() * sizeof(int64_t));
  for (const Tensor& image : input.images) hash.add(image.view().data(), image.view().size_bytes());
  outputs.prompts_hash = hash.value();
  keep_numbers(outputs, encoder->forward(input).last_hidden_state);
  return outputs;
}

}  // namespace

TtftOutputs run_outputs(const Model& model, ThreadPool& pool, const TtftOptions& options) {
  return is_stateless(model.config.facts.task) ? outputs_of_encoder(model, pool, options)
                                               : outputs_of_prompts(model, pool, options);
}

OutputComparison compare_outputs(const TtftOutputs& a, const TtftOutputs& b) {
  OutputComparison c;
  c.same_prompts = a.prompts_hash == b.prompts_hash;
  c.same_bits = a.bits == b.bits && a.numbers.size() == b.numbers.size();
  c.sequences = std::ssize(a.tokens);
  c.steps = a.tokens.empty() ? 0 : std::ssize(a.tokens[0]);
  c.same_tokens = a.tokens == b.tokens;
  for (size_t s = 0; s < std::min(a.tokens.size(), b.tokens.size()) && c.sequence < 0; ++s)
    for (size_t i = 0; i < std::min(a.tokens[s].size(), b.tokens[s].size()); ++i)
      if (a.tokens[s][i] != b.tokens[s][i]) {
        c.sequence = static_cast<int64_t>(s);
        c.step = static_cast<int64_t>(i);
        c.token = a.tokens[s][i];
        c.other_token = b.tokens[s][i];
        if (s < a.margins.size() && i < a.margins[s].size()) c.margin = a.margins[s][i];
        break;
      }
  double largest = 0, difference = 0;
  for (size_t i = 0; i < std::min(a.numbers.size(), b.numbers.size()); ++i) {
    largest = std::max(largest, std::abs(a.numbers[i]));
    const double apart = std::abs(a.numbers[i] - b.numbers[i]);
    difference = std::max(difference, std::isnan(apart) ? std::numeric_limits<double>::max() : apart);
  }
  c.largest_difference = difference == 0 ? 0 : difference / std::max(largest, difference);
  return c;
}

std::string comparison_text(const OutputComparison& c, const std::string& name, const std::string& other) {
  if (!c.same_prompts) return "the prompts differ, so the outputs cannot be compared";
  const std::string numbers =
      c.same_bits ? "equal bit for bit" : fmt::format("differ by at most {:.1e} of the largest", c.largest_difference);
  if (c.steps == 0) return fmt::format("vectors {}", numbers);
  if (c.same_tokens)
    return fmt::format("the same {} greedy tokens{}, logits of the prompt {}", c.steps,
                       c.sequences == 1 ? "" : fmt::format(" of each of {} sequences", c.sequences), numbers);
  if (c.sequence < 0) return fmt::format("{} and {} gave different numbers of tokens", name, other);
  return fmt::format(
      "TOKENS DIFFER: sequence {}, step {} of {}: {} by {}, {} by {}, where the best two "
      "logits of {} are {:.1e} of the largest apart; logits of the prompt {}",
      c.sequence + 1, c.step + 1, c.steps, c.token, name, c.other_token, other, name, c.margin, numbers);
}

}  // namespace fk
