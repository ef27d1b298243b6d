#include "engine/sampler.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace fk {

void check_sampling_params(const SamplingParams& p) {
  if (!(p.temperature >= 0) || !std::isfinite(p.temperature))
    throw UsageError("The temperature must be 0 or more, not {}.", p.temperature);
  if (p.top_k < 0) throw UsageError("top-k must be 0 (all tokens) or more, not {}.", p.top_k);
  if (!(p.top_p > 0 && p.top_p <= 1)) throw UsageError("top-p must be above 0 and at most 1, not {}.", p.top_p);
  if (!(p.min_p >= 0 && p.min_p <= 1)) throw UsageError("min-p must lie between 0 and 1, not {}.", p.min_p);
}

Sampler::Sampler(int64_t max_sequences, const BuildOptions& options)
    : builder_(options),
      argmax_(builder_.child<Argmax>("argmax", {})),
      sample_(builder_.child<Sample>("sample", {})),
      temperature_({max_sequences}, options.device),
      top_p_({max_sequences}, options.device),
      min_p_({max_sequences}, options.device),
      top_k_({max_sequences}, options.device),
      seeds_({max_sequences}, options.device),
      steps_({max_sequences}, options.device),
      tokens_({max_sequences}, options.device) {}

void Sampler::set(std::span<const SamplingParams> params, std::span<const int64_t> steps) {
  FK_CHECK(params.size() == steps.size());
  rows_ = static_cast<int64_t>(params.size());
  greedy_ = std::all_of(params.begin(), params.end(), [](const SamplingParams& p) { return p.temperature == 0; });
  for (int64_t i = 0; i < rows_; ++i) {
    const SamplingParams& p = params[static_cast<size_t>(i)];
    temperature_.host()[i] = static_cast<float>(p.temperature);
    top_k_.host()[i] = static_cast<int32_t>(std::min<int64_t>(p.top_k, INT32_MAX));
    top_p_.host()[i] = static_cast<float>(p.top_p);
    min_p_.host()[i] = static_cast<float>(p.min_p);
    seeds_.host()[i] = static_cast<int64_t>(p.seed);
    steps_.host()[i] = steps[static_cast<size_t>(i)];
  }
  steps_.push(rows_);
  if (greedy_) return;
  temperature_.push(rows_);
  top_k_.push(rows_);
  top_p_.push(rows_);
  min_p_.push(rows_);
  seeds_.push(rows_);
}

void Sampler::draw(Context& ctx, const View& logits) const {
  FK_CHECK(logits.size(0) == rows_);
  if (greedy_)
    argmax_.into(ctx, logits, first(tokens_));
  else
    sample_.into(ctx, logits, first(temperature_), first(top_k_), first(top_p_), first(min_p_), first(seeds_),
                 first(steps_), first(tokens_));
}

std::span<const int64_t> Sampler::pick(Context& ctx, const View& logits, std::span<const SamplingParams> params,
                                       std::span<const int64_t> steps) {
  set(params, steps);
  draw(ctx, logits);
  tokens_.pull(rows_);
  return {tokens_.host(), params.size()};
}

}  // namespace fk
