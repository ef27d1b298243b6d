#include "engine/denoiser.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/rng.h"
#include "engine/finite_logits.h"

namespace fk {

Remasking remasking_from_name(std::string_view name) {
  if (name == "low_confidence") return Remasking::kLowConfidence;
  if (name == "random") return Remasking::kRandom;
  throw Error("Remasking '{}' is not known; use low_confidence or random.", name);
}

std::vector<int64_t> tokens_per_step(int64_t masks, int64_t steps) {
  std::vector<int64_t> counts(static_cast<size_t>(steps), masks / steps);
  for (int64_t i = 0; i < masks % steps; ++i) ++counts[static_cast<size_t>(i)];
  return counts;
}

std::vector<DenoiseStep> denoise_steps(const DenoiseOptions& options) {
  if (options.gen_length < 1 || options.block_length < 1 || options.steps < 1)
    throw Error("A text needs at least one token, one step and blocks of one token.");
  const int64_t blocks = (options.gen_length + options.block_length - 1) / options.block_length;
  std::vector<DenoiseStep> all;
  for (int64_t b = 0; b < blocks; ++b) {
    DenoiseStep step{.first = b * options.block_length};
    step.length = std::min(options.block_length, options.gen_length - step.first);
    for (int64_t keep : tokens_per_step(step.length, std::clamp<int64_t>(options.steps / blocks, 1, step.length))) {
      step.keep = keep;
      all.push_back(step);
      step.known += keep;
    }
  }
  return all;
}

Denoiser::Denoiser(const Model& model, ThreadPool& pool) : model_(model), pool_(pool) {
  model.config.require_task(Task::kDiffusionLM, model.name, "denoising");
  encoder_ = make_encoder(model, pool);
}

Denoiser::Guess Denoiser::guess(const float* logits, const DenoiseOptions& options, size_t text, int64_t place,
                                int64_t step) const {
  const int64_t V = model_.config.facts.vocab_size;
  // The largest logit; with a temperature, of logits with Gumbel noise, in double: the tail of the noise decides. A
  // mask is no answer.
  const Stream noise(options.seed, fmt::format("denoise {} {} {}", text, place, step));
  Guess best;
  double largest = -INFINITY;
  for (int64_t i = 0; i < V; ++i) {
    double value = static_cast<double>(logits[i]);
    if (options.temperature > 0)
      value -= options.temperature * std::log(-std::log(noise.uniform(static_cast<uint64_t>(i))));
    if (value > largest && i != model_.config.facts.mask_id) largest = value, best.token = i;
  }
  if (options.remasking == Remasking::kRandom) {
    best.confidence =
        Stream(options.seed, fmt::format("remask {} {}", text, step)).uniform(static_cast<uint64_t>(place));
    return best;
  }
  const double top = *std::max_element(logits, logits + V);
  double sum = 0;
  for (int64_t i = 0; i < V; ++i) sum += std::exp(static_cast<double>(logits[i]) - top);
  best.confidence = std::exp(static_cast<double>(logits[best.token]) - top) / sum;
  return best;
}

// blocks: the places of the current block of each text; keep: how many of its masks become tokens.
void Denoiser::run_step(Texts& texts, const std::vector<std::vector<int64_t>>& blocks, const std::vector<int64_t>& keep,
                        const DenoiseOptions& options, int64_t step) {
  // All places of the blocks, also those that are known by now: equal shapes can be recorded on a device.
  Encoded encoded = encoder_->forward({.texts = texts, .wanted = blocks});
  ++passes_;
  View logits = encoded.last_hidden_state;
  require_finite_logits(model_, logits);
  if (logits.device() != kCpu) {
    if (logits_.view().data() == nullptr || logits_.view().shape() != logits.shape())
      logits_ = Tensor(logits.shape(), logits.dtype());
    copy_between(logits, logits_);
    logits = logits_;
  }
  struct Place {
    size_t text;
    int64_t at, row;
  };
  std::vector<Place> masked;
  int64_t row = 0;
  for (size_t t = 0; t < texts.size(); ++t)
    for (int64_t at : blocks[t]) {
      if (texts[t][static_cast<size_t>(at)] == model_.config.facts.mask_id) masked.push_back({t, at, row});
      ++row;
    }
  std::vector<Guess> guesses(masked.size());
  pool_.parallel_for(std::ssize(masked), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Place& p = masked[static_cast<size_t>(i)];
      guesses[static_cast<size_t>(i)] =
          guess(logits.ptr<float>() + p.row * logits.size(1), options, p.text, p.at, step);
    }
  });
  for (size_t t = 0; t < texts.size(); ++t) {
    std::vector<size_t> mine;
    for (size_t i = 0; i < masked.size(); ++i)
      if (masked[i].text == t) mine.push_back(i);
    // Of equally sure ones the first.
    std::stable_sort(mine.begin(), mine.end(),
                     [&](size_t a, size_t b) { return guesses[a].confidence > guesses[b].confidence; });
    mine.resize(std::min(mine.size(), static_cast<size_t>(keep[t])));
    for (size_t i : mine) texts[t][static_cast<size_t>(masked[i].at)] = guesses[i].token;
  }
}

Denoiser::Texts Denoiser::generate(const Texts& prompts, const DenoiseOptions& options,
                                   const std::function<void(const Texts&)>& progress) {
  const std::vector<DenoiseStep> steps = denoise_steps(options);
  const int64_t mask = model_.config.facts.mask_id;
  Texts texts = prompts;
  for (auto& text : texts) {
    for (int64_t token : text)
      if (token == mask)
        throw Error("A prompt holds the mask token {}, which stands for what is to be generated; leave it out.", mask);
    text.insert(text.end(), static_cast<size_t>(options.gen_length), mask);
  }
  for (size_t s = 0; s < steps.size(); ++s) {
    std::vector<std::vector<int64_t>> places(texts.size());
    for (size_t t = 0; t < texts.size(); ++t)
      for (int64_t i = 0; i < steps[s].length; ++i) places[t].push_back(std::ssize(prompts[t]) + steps[s].first + i);
    run_step(texts, places, std::vector<int64_t>(texts.size(), steps[s].keep), options, static_cast<int64_t>(s));
    if (progress) progress(texts);
  }
  for (size_t t = 0; t < texts.size(); ++t) texts[t].erase(texts[t].begin(), texts[t].begin() + std::ssize(prompts[t]));
  return texts;
}

}  // namespace fk
