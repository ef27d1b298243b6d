// generate: a prompt's continuation by ModelExecutor and DecodeLoop, one token after the other. BatchingEngine is what
// the program uses; tests compare with this plain loop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/decode_loop.h"
#include "engine/finite_logits.h"
#include "engine/model_executor.h"
#include "engine/sampler.h"

namespace fk {

struct GenerateRequest {
  std::vector<int64_t> prompt;
  int64_t max_tokens = 16;
  SamplingParams sampling;
  std::vector<int64_t> stop_tokens;  // ends the text; the stop token itself is not part of it
};

// Called with each token as it comes; false ends the generation.
using TokenSink = std::function<bool(int64_t token)>;

// The tokens after the prompt. The executor's max_context must be large enough for the prompt and max_tokens.
inline std::vector<int64_t> generate(ModelExecutor& executor, Sampler& sampler, const GenerateRequest& request,
                                     const TokenSink& sink = {}) {
  check_sampling_params(request.sampling);
  std::vector<int64_t> tokens;
  tokens.reserve(static_cast<size_t>(std::max<int64_t>(request.max_tokens, 0)));
  if (request.max_tokens <= 0) return tokens;
  RunningSequence sequence = executor.start();
  View logits = executor.prefill(sequence, request.prompt);
  require_finite_logits(executor.model(), logits);
  Context ctx = executor.context();
  int64_t drawn = 0, token = sampler.pick(ctx, logits, {&request.sampling, 1}, {&drawn, 1})[0];
  std::optional<DecodeLoop> loop;
  for (;;) {
    if (std::find(request.stop_tokens.begin(), request.stop_tokens.end(), token) != request.stop_tokens.end()) break;
    tokens.push_back(token);
    if (sink && !sink(token)) break;
    if (++drawn == request.max_tokens) break;
    if (!loop) {
      RunningSequence* only = &sequence;
      loop.emplace(executor, 1);
      loop->start({&only, 1}, {&token, 1}, {&request.sampling, 1}, {&drawn, 1}, request.max_tokens - drawn);
    }
    loop->step();
    token = loop->drawn()[0];
    require_finite_draw(executor.model(), loop->logits(), 0, token);
  }
  // The logits of a device are checked only once, at the end: a NaN stays in the sequence's keys and values.
  if (loop && executor.model().device != kCpu) require_finite_logits(executor.model(), loop->logits());
  executor.finish(sequence);
  return tokens;
}

}  // namespace fk
