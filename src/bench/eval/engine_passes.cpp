#include "bench/eval/engine_passes.h"

#include "core/error.h"

namespace fk {
namespace {

BatchingOptions options_of(int64_t max_num_seqs, int64_t max_model_len) {
  BatchingOptions options;
  options.max_num_seqs = max_num_seqs;
  options.max_model_len = max_model_len;
  options.num_blocks = max_num_seqs * ((max_model_len + options.block_size - 1) / options.block_size);
  options.enable_prefix_caching = false;  // every prompt is another one
  return options;
}

}  // namespace

EnginePasses::EnginePasses(const Model& model, ThreadPool& pool, int64_t max_num_seqs, int64_t max_model_len)
    : engine_(model, pool, std::nullopt, options_of(max_num_seqs, max_model_len)) {}

TokenRows EnginePasses::run(const TokenRows& prompts, int64_t steps) {
  TokenRows rows(prompts.size());
  std::string error;
  for (size_t i = 0; i < prompts.size(); ++i) {
    Request request;
    request.prompt = prompts[i];
    request.max_tokens = steps;
    request.ignore_eos = true;
    engine_.submit(std::move(request), [&rows, &error, i](const RequestOutput& output) {
      rows[i].insert(rows[i].end(), output.tokens.begin(), output.tokens.end());
      if (output.finish == FinishReason::kError) error = output.error;
    });
  }
  engine_.run_until_idle();
  if (!error.empty()) throw Error("{}", error);
  for (const std::vector<int64_t>& row : rows)
    if (static_cast<int64_t>(row.size()) != steps)
      throw Error("A request ended after {} of {} tokens.", row.size(), steps);
  return rows;
}

}  // namespace fk
