// --batch-invariant: the log-probabilities of a request have the same bits alone, in a batch, with its prompt cut in
// other places, after a preemption and with guessed tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "core/error.h"
#include "engine/batching_engine.h"
#include "models/catalog.h"
#include "ops/batch_invariant.h"

namespace fk {
namespace {

// Tokens and log-probabilities of the most likely ones, by their bits.
struct Bits {
  std::vector<int64_t> tokens;
  std::vector<uint32_t> logprobs;
  std::string error;
  bool operator==(const Bits&) const = default;
};

class InvariantModel {
 public:
  InvariantModel(const std::string& name, DType dtype, const std::string& quantization, int threads)
      : pool_(threads),
        model_(load_model(resolve_model(name),
                          {.format = LoadFormat::kDummy, .dtype = dtype, .seed = 5, .quantization = quantization},
                          pool_)) {}
  ~InvariantModel() { set_batch_invariant(false); }

  bool recurrent() const {
    const std::vector<StateSpec> states = collect_states(*model_.root);
    return std::any_of(states.begin(), states.end(), [](const StateSpec& s) { return !s.per_token(); });
  }

  std::vector<Request> requests() const {
    std::vector<Request> list;
    for (int64_t i = 0; i < 7; ++i) {
      Request r;
      for (int64_t t = 0; t < 1 + 13 * i; ++t)
        r.prompt.push_back((3 + 5 * i + 7 * t * (i % 3 == 0 ? t : 1)) % model_.config.facts.vocab_size);
      r.max_tokens = 6 + 2 * i;
      r.logprobs = 5;
      if (i % 3 == 2) r.sampling = {.temperature = 0.8, .seed = static_cast<uint64_t>(i)};
      list.push_back(std::move(r));
    }
    return list;
  }

  std::vector<Bits> run(BatchingOptions options, const std::vector<Request>& requests, bool invariant = true) {
    options.batch_invariant = invariant;
    BatchingEngine engine(model_, pool_, std::nullopt, options);
    std::vector<Bits> all(requests.size());
    for (size_t i = 0; i < requests.size(); ++i)
      engine.submit(requests[i], [&all, i](const RequestOutput& output) {
        all[i].tokens.insert(all[i].tokens.end(), output.tokens.begin(), output.tokens.end());
        all[i].error += output.error;
        for (const DrawnLogprobs& l : output.logprobs)
          for (const TokenLogprob& t : l.top) all[i].logprobs.push_back(std::bit_cast<uint32_t>(t.logprob));
      });
    engine.run_until_idle();
    stats_ = engine.stats();
    return all;
  }

  const EngineStats& stats() const { return stats_; }

 private:
  ThreadPool pool_;
  Model model_;
  EngineStats stats_;
};

void expect_invariant(const std::string& name, DType dtype, const std::string& quantization = "", int threads = 1) {
  SCOPED_TRACE(name + " " + std::string(dtype_name(dtype)) + " " + quantization);
  InvariantModel model(name, dtype, quantization, threads);
  const bool latent = name.starts_with("tiny-deepseek-v3") && !name.starts_with("tiny-deepseek-v32");
  if (model.recurrent() || latent) {
    EXPECT_THROW(model.run({}, {}), UsageError);
    return;
  }
  const std::vector<Request> requests = model.requests();
  std::vector<Bits> alone;
  for (const Request& r : requests) {
    alone.push_back(model.run({.max_num_seqs = 1, .enable_prefix_caching = false}, {r})[0]);
    ASSERT_EQ(alone.back().error, "");
    ASSERT_EQ(alone.back().logprobs.size(), static_cast<size_t>(5 * r.max_tokens));
  }
  EXPECT_EQ(model.run({}, requests), alone) << "together";
  EXPECT_EQ(model.run({.max_num_seqs = 3, .max_num_batched_tokens = 5}, requests), alone) << "in chunks of prompts";
  EXPECT_EQ(model.run({.max_num_batched_tokens = 40, .block_size = 4, .num_blocks = 36}, requests), alone)
      << "in a small cache";
  EXPECT_EQ(model.run({.run_ahead = true}, requests), alone) << "with steps that are started early";
  EXPECT_EQ(model.run({.speculative = {.num_speculative_tokens = 3, .prompt_lookup_max = 2, .prompt_lookup_min = 1}},
                      requests),
            alone)
      << "with guesses";
  EXPECT_GT(model.stats().draft_tokens, 0);
}

TEST(BatchInvariant, BitsOfARequestDoNotDependOnTheBatch) {
  for (const char* name : {"tiny-llama", "tiny-gemma3", "tiny-qwen3-moe"}) expect_invariant(name, DType::kBF16);
  for (DType dtype : {DType::kF32, DType::kF16}) expect_invariant("tiny-llama", dtype);
  expect_invariant("tiny-llama", DType::kBF16, "", 2);
}

TEST(BatchInvariant, SlowBitsOfEveryFamily) {
  for (const CatalogEntry& entry : catalog())
    if (entry.name.starts_with("tiny-") && entry.config.facts.task == Task::kCausalLM)
      for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) expect_invariant(entry.name, dtype);
}

TEST(BatchInvariant, BitsOfQuantisedModels) {
  for (const char* method : {"fp8", "int8"}) expect_invariant("tiny-llama", DType::kBF16, method);
  expect_invariant("tiny-gpt-oss-mxfp4", DType::kBF16);
}

// Without the mode bits do change, so that the tests above can fail.
TEST(BatchInvariant, BitsDependOnTheBatchWithoutIt) {
  InvariantModel model("tiny-llama", DType::kBF16, "", 1);
  const std::vector<Request> requests = model.requests();
  std::vector<Bits> alone;
  for (const Request& r : requests) alone.push_back(model.run({}, {r}, false)[0]);
  EXPECT_FALSE(batch_invariant());
  EXPECT_NE(model.run({.max_num_seqs = 3, .max_num_batched_tokens = 5}, requests, false), alone);
}

}  // namespace
}  // namespace fk
