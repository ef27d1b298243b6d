// Tensor parallelism: several ranks, each with its part of the weights, give the tokens and logits of one rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"
#include "engine/batching_engine.h"
#include "models/catalog.h"
#include "tests/core/on_ranks.h"
#include "tests/engine/generate.h"
#include "tests/models/error_text.h"

namespace fk {
namespace {

struct RankRun {
  std::vector<float> logits;  // of the prompt's last token
  std::vector<int64_t> tokens;
  std::vector<std::vector<int64_t>> batch;  // of several requests together
  size_t weight_bytes = 0;
};

RankRun run_rank(const ModelSource& source, DType dtype, Communicator* ranks) {
  ThreadPool pool(1);
  Model model =
      load_model(source, {.format = LoadFormat::kDummy, .dtype = dtype, .seed = 3, .communicator = ranks}, pool);
  ModelExecutor executor(model, pool, {.max_sequences = 1, .max_context = 64, .max_step_tokens = 8});
  std::vector<int64_t> prompt;
  for (int64_t i = 0; i < 19; ++i) prompt.push_back((37 * i + 11) % model.config.facts.vocab_size);
  RankRun run;
  run.weight_bytes = model.weights.size_bytes();
  RunningSequence sequence = executor.start();
  View logits = executor.prefill(sequence, prompt);
  run.logits.assign(logits.ptr<float>(), logits.ptr<float>() + logits.numel());
  executor.finish(sequence);
  Sampler sampler(1, {});
  run.tokens = generate(executor, sampler, {.prompt = prompt, .max_tokens = 12, .sampling = {}, .stop_tokens = {}});
  // Every rank plans the same steps: small chunks, few blocks, requests that end at different times.
  BatchingEngine engine(model, pool, std::nullopt, {.max_num_seqs = 3, .max_num_batched_tokens = 8, .num_blocks = 6});
  run.batch.resize(4);
  for (size_t i = 0; i < run.batch.size(); ++i) {
    Request request;
    request.prompt.assign(prompt.begin() + static_cast<std::ptrdiff_t>(i), prompt.end());
    request.max_tokens = 4 + 3 * static_cast<int64_t>(i);
    if (i % 2 == 1) request.sampling = {.temperature = 0.8, .seed = i};
    engine.submit(request, [&run, i](const RequestOutput& output) {
      run.batch[i].insert(run.batch[i].end(), output.tokens.begin(), output.tokens.end());
    });
  }
  engine.run_until_idle();
  return run;
}

std::vector<RankRun> run_ranks(const ModelSource& source, DType dtype, int64_t size) {
  std::vector<RankRun> runs(static_cast<size_t>(size));
  on_ranks(size,
           [&](Communicator& ranks) { runs[static_cast<size_t>(ranks.rank())] = run_rank(source, dtype, &ranks); });
  return runs;
}

void expect_equal_to_one_rank(const ModelSource& source, int64_t size) {
  const std::string& name = source.name;
  RankRun one = run_rank(source, DType::kF32, nullptr);
  double scale = 0;
  for (float x : one.logits) scale = std::max(scale, std::abs(static_cast<double>(x)));
  std::vector<RankRun> runs = run_ranks(source, DType::kF32, size);
  for (const RankRun& run : runs) {
    EXPECT_EQ(run.tokens, one.tokens) << name << " on " << size << " ranks";
    EXPECT_EQ(run.batch, one.batch) << name << " on " << size << " ranks";
    EXPECT_EQ(run.logits, runs[0].logits) << name << ": every rank has the same bits";
    ASSERT_EQ(run.logits.size(), one.logits.size());
    double worst = 0;
    for (size_t i = 0; i < one.logits.size(); ++i)
      worst = std::max(worst, std::abs(static_cast<double>(run.logits[i]) - static_cast<double>(one.logits[i])));
    EXPECT_LE(worst, 1e-4 * scale) << name << " on " << size << " ranks";
    EXPECT_LT(run.weight_bytes, one.weight_bytes) << name;
  }
}

// The tiny model with heads and features rounded up, so that four ranks can divide it.
ModelSource divisible(const std::string& name) {
  ModelSource source = resolve_model(name);
  for (Field& field : source.config.init) {
    bool heads = field.name == "num_attention_heads" || field.name.ends_with("key_value_heads");
    if (!heads && field.name.find("intermediate_size") == field.name.npos) continue;
    // Blocks of MXFP4 have 32 elements.
    int64_t step = heads ? 4 : name.find("mxfp4") != name.npos ? 128 : 4;
    auto& value = std::get<int64_t>(field.value);
    value = (value + step - 1) / step * step;
  }
  return source;
}

TEST(Ranks, TwoRanksEqualOne) { expect_equal_to_one_rank(resolve_model("tiny-llama"), 2); }

// Biases on what is added up, and experts.
TEST(Ranks, FourRanksEqualOne) { expect_equal_to_one_rank(resolve_model("tiny-gpt-oss"), 4); }

// More ranks than key and value heads: ranks share one.
TEST(Ranks, RanksThatShareAHeadEqualOne) { expect_equal_to_one_rank(resolve_model("tiny-qwen3-mqa"), 4); }

TEST(Ranks, SlowEveryLanguageModelOnTwoAndFourRanks) {
  std::set<std::string_view> families;
  for (const CatalogEntry& entry : catalog()) {
    if (!entry.name.starts_with("tiny-") || entry.config.facts.task != Task::kCausalLM) continue;
    if (entry.config.architecture() == "BitNetForCausalLM") {
      expect_sentence(error_of([&] { check_divisible(divisible(entry.name), 2); }), {"norms", "2 ranks"});
      continue;
    }
    // Their states and norms are over all heads.
    static const std::set<std::string_view> kOneRank = {
        "FalconMambaForCausalLM", "JambaForCausalLM",     "KimiLinearForCausalLM", "Mamba2ForCausalLM",
        "MambaForCausalLM",       "Qwen3NextForCausalLM", "RWKV7ForCausalLM"};
    if (kOneRank.contains(entry.config.architecture())) {
      expect_sentence(error_of([&] { check_divisible(divisible(entry.name), 2); }), {"one rank"});
      continue;
    }
    families.insert(entry.config.architecture());
    for (int64_t size : {2, 4}) expect_equal_to_one_rank(divisible(entry.name), size);
  }
  EXPECT_GE(families.size(), 14u);
}

TEST(Ranks, ImpossibleNumbersOfRanksAreRefused) {
  expect_sentence(error_of([] { check_divisible(resolve_model("tiny-llama"), 8); }),
                  {"tiny-llama", "8 ranks", "4 attention heads"});
  expect_sentence(error_of([] { check_divisible(resolve_model("tiny-llama"), 3); }), {"3 ranks"});
  expect_sentence(error_of([] { check_divisible(resolve_model("tiny-siglip"), 2); }), {"tiny-siglip", "--tp"});
}

}  // namespace
}  // namespace fk
