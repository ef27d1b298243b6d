#include "engine/generate.h"

#include <algorithm>

namespace fk {

std::vector<int64_t> generate(Runner& runner, Sampler& sampler, const GenerateRequest& request, const TokenSink& sink) {
  check_sampling_params(request.sampling);
  std::vector<int64_t> tokens;
  tokens.reserve(static_cast<size_t>(std::max<int64_t>(request.max_tokens, 0)));
  if (request.max_tokens <= 0) return tokens;
  RunningSequence sequence = runner.start();
  View logits = runner.prefill(sequence, request.prompt);
  for (;;) {
    Context ctx = runner.context();
    auto step = static_cast<int64_t>(tokens.size());
    int64_t token = sampler.pick(ctx, logits, {&request.sampling, 1}, {&step, 1})[0];
    if (std::find(request.stop_tokens.begin(), request.stop_tokens.end(), token) != request.stop_tokens.end()) break;
    tokens.push_back(token);
    if (sink && !sink(token)) break;
    if (static_cast<int64_t>(tokens.size()) == request.max_tokens) break;
    const NewTokens next{&sequence, {&tokens.back(), 1}};
    logits = runner.forward({&next, 1});
  }
  runner.finish(sequence);
  return tokens;
}

}  // namespace fk
