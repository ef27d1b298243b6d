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
      temperature_({max_sequences}, DType::kF32),
      top_k_({max_sequences}, DType::kI32),
      top_p_({max_sequences}, DType::kF32),
      min_p_({max_sequences}, DType::kF32),
      seeds_({max_sequences}, DType::kI64),
      steps_({max_sequences}, DType::kI64),
      tokens_({max_sequences}, DType::kI64) {}

std::span<const int64_t> Sampler::pick(Context& ctx, const View& logits, std::span<const SamplingParams> params,
                                       std::span<const int64_t> steps) {
  auto rows = static_cast<int64_t>(params.size());
  FK_CHECK(logits.size(0) == rows && params.size() == steps.size());
  auto first = [&](const Tensor& t) { return t.view().narrow(0, 0, rows); };
  if (std::all_of(params.begin(), params.end(), [](const SamplingParams& p) { return p.temperature == 0; })) {
    argmax_.into(ctx, logits, first(tokens_));
  } else {
    for (int64_t i = 0; i < rows; ++i) {
      const SamplingParams& p = params[static_cast<size_t>(i)];
      temperature_.ptr<float>()[i] = static_cast<float>(p.temperature);
      top_k_.ptr<int32_t>()[i] = static_cast<int32_t>(std::min<int64_t>(p.top_k, logits.size(1)));
      top_p_.ptr<float>()[i] = static_cast<float>(p.top_p);
      min_p_.ptr<float>()[i] = static_cast<float>(p.min_p);
      seeds_.ptr<int64_t>()[i] = static_cast<int64_t>(p.seed);
      steps_.ptr<int64_t>()[i] = steps[static_cast<size_t>(i)];
    }
    sample_.into(ctx, logits, first(temperature_), first(top_k_), first(top_p_), first(min_p_), first(seeds_),
                 first(steps_), first(tokens_));
  }
  return {tokens_.ptr<int64_t>(), params.size()};
}

}  // namespace fk
