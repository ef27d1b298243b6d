// generate: a prompt's continuation, token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

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
std::vector<int64_t> generate(ModelExecutor& executor, Sampler& sampler, const GenerateRequest& request,
                              const TokenSink& sink = {});

}  // namespace fk
