// Recurrent states over 4096 tokens against transformers: what rounding leaves in a state must not grow from step to
// step. And requests that share an engine, are preempted and start again get the tokens they get alone.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/device_runtime.h"
#include "engine/batching_engine.h"
#include "models/config.h"
#include "tests/engine/generate.h"
#include "tests/golden/golden_model.h"

namespace fk::golden {
namespace {

const std::string kLongData = FK_SOURCE_DIR "/tests/golden/long_data/";

struct LongRun {
  explicit LongRun(const std::string& name) {
    Json json = parse_json_file(kLongData + name + ".json");
    source.name = name;
    source.config = config_from_json(json.at("config"), name);
    seed = json.at("seed");
    tokens = json.at("tokens").get<std::vector<int64_t>>();
    logits = json.at("logits").get<std::vector<double>>();
    logits_bf16_weights = json.at("logits_bf16_weights").get<std::vector<double>>();
    f32_error = json.at("largest_f32_error");
    bf16_error = json.at("largest_bf16_error");
  }

  ModelSource source;
  uint64_t seed = 0;
  std::vector<int64_t> tokens;
  std::vector<double> logits, logits_bf16_weights;
  double f32_error = 0, bf16_error = 0;
};

class LongStates : public testing::TestWithParam<Subject> {
 protected:
  LongStates() : run_(GetParam().model), pool_(2) {}
  void SetUp() override {
    if (std::string why = device_missing(GetParam().device); !why.empty()) GTEST_SKIP() << why;
  }

  // The logits after all tokens: the first ones in one chunk, then `steps` of them one by one.
  std::vector<float> logits_after(DType dtype, int64_t chunk, int64_t steps) {
    Model model = load_model(
        run_.source, {.format = LoadFormat::kDummy, .dtype = dtype, .seed = run_.seed, .device = GetParam().device},
        pool_);
    auto length = static_cast<int64_t>(run_.tokens.size());
    ModelExecutor executor(model, pool_, {.max_sequences = 1, .max_context = length, .max_step_tokens = chunk});
    RunningSequence sequence = executor.start();
    std::span<const int64_t> tokens = run_.tokens;
    View logits;
    if (steps < length) logits = executor.prefill(sequence, tokens.first(static_cast<size_t>(length - steps)));
    for (int64_t t = length - steps; t < length; ++t) {
      const NewTokens one{&sequence, tokens.subspan(static_cast<size_t>(t), 1)};
      logits = executor.forward({&one, 1});
    }
    std::vector<float> result = on_host(logits);
    executor.finish(sequence);
    return result;
  }

  LongRun run_;
  ThreadPool pool_;
};

TEST_P(LongStates, SlowDoNotDriftInF32) {
  // Twice the error of transformers, whose order of summation is another one.
  double allowed = std::max(2 * run_.f32_error, 2e-6);
  auto length = static_cast<int64_t>(run_.tokens.size());
  EXPECT_LE(relative_error(run_.logits, logits_after(DType::kF32, length, length).data()), allowed) << "step by step";
  EXPECT_LE(relative_error(run_.logits, logits_after(DType::kF32, length, 0).data()), allowed) << "in one chunk";
  EXPECT_LE(relative_error(run_.logits, logits_after(DType::kF32, 1001, 33).data()), allowed)
      << "in odd chunks, then steps";
}

TEST_P(LongStates, SlowDoNotDriftInBf16) {
  auto length = static_cast<int64_t>(run_.tokens.size());
  for (int64_t steps : {length, int64_t{7}})
    EXPECT_LE(relative_error(run_.logits_bf16_weights, logits_after(DType::kBF16, 999, steps).data()),
              1.5 * run_.bf16_error)
        << "the last " << steps << " step by step";
}

INSTANTIATE_TEST_SUITE_P(Models, LongStates, testing::ValuesIn(subjects(kLongData)),
                         [](const auto& test) { return subject_name(test.param); });

// Few blocks: requests are preempted and compute their states again from zeros; few slots: all wait for one.
class SharedEngine : public testing::TestWithParam<Subject> {};

TEST_P(SharedEngine, GivesEveryRequestTheTokensItGetsAlone) {
  if (std::string why = device_missing(GetParam().device); !why.empty()) GTEST_SKIP() << why;
  Golden golden(GetParam().model);
  ThreadPool pool(2);
  Model model = golden.load(DType::kF32, pool, GetParam().device);
  const Case* ragged = golden.find("ragged_batch");
  ASSERT_NE(ragged, nullptr);
  constexpr int64_t kTokens = 110;  // more than admission reserves for a request
  std::vector<std::vector<int64_t>> alone;
  {
    ModelExecutor executor(model, pool, {.max_sequences = 1, .max_context = 256});
    Sampler sampler(1, {.device = GetParam().device});
    for (const std::vector<int64_t>& prompt : ragged->prompts)
      alone.push_back(
          generate(executor, sampler, {.prompt = prompt, .max_tokens = kTokens, .sampling = {}, .stop_tokens = {}}));
  }
  for (int64_t blocks : {0, 60}) {
    BatchingEngine engine(model, pool, std::nullopt,
                          {.max_num_seqs = 3, .max_num_batched_tokens = 7, .block_size = 4, .num_blocks = blocks});
    std::vector<std::vector<int64_t>> shared(2 * alone.size());
    for (size_t i = 0; i < shared.size(); ++i) {
      Request request;
      request.prompt = ragged->prompts[i % alone.size()];
      request.max_tokens = kTokens;
      engine.submit(request, [&shared, i](const RequestOutput& output) {
        shared[i].insert(shared[i].end(), output.tokens.begin(), output.tokens.end());
      });
    }
    engine.run_until_idle();
    for (size_t i = 0; i < shared.size(); ++i)
      EXPECT_EQ(shared[i], alone[i % alone.size()]) << "request " << i << ", " << blocks << " blocks";
    if (blocks > 0) {
      EXPECT_GT(engine.stats().preemptions, 0) << "nothing was preempted, so this shows less than it says";
    }
    EXPECT_EQ(engine.stats().cached_prompt_tokens, 0) << "recurrent states cannot be shared";
  }
}

std::vector<Subject> recurrent_subjects() {
  std::vector<Subject> kept;
  for (const Subject& s : subjects(kData))
    if (s.model.find("mamba") != std::string::npos || s.model.find("jamba") != std::string::npos) kept.push_back(s);
  return kept;
}

INSTANTIATE_TEST_SUITE_P(Models, SharedEngine, testing::ValuesIn(recurrent_subjects()),
                         [](const auto& test) { return subject_name(test.param); });

}  // namespace
}  // namespace fk::golden
