// Our models against transformers: the same dummy weights, the same prompts, logits and greedy tokens as stored.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "core/device_runtime.h"
#include "engine/batching_engine.h"
#include "tests/engine/generate.h"
#include "tests/golden/golden_model.h"

namespace fk::golden {
namespace {

constexpr double kF32Bound = 1e-4;  // of the largest logit; transformers' own f32 is within 2e-6 of float64

// What was read is kept for the other tests of this process, which are of the same model (tests/CMakeLists.txt).
const Golden& golden_of(const std::string& name) {
  static std::map<std::string, Golden> read;
  auto at = read.find(name);
  if (at == read.end()) at = read.emplace(name, Golden(name)).first;
  return at->second;
}

class Alignment : public testing::TestWithParam<Subject> {
 protected:
  Alignment() : golden_(golden_of(GetParam().model)), pool_(1) {}
  void SetUp() override {
    if (std::string why = device_missing(GetParam().device); !why.empty()) GTEST_SKIP() << why;
  }

  // Loaded once for all tests of this process. What passes leave behind is in an executor or an engine, not in a model.
  Model& load(DType dtype) {
    static std::map<std::pair<std::string, DType>, Model> loaded;
    const std::pair key(subject_name(GetParam()), dtype);
    auto at = loaded.find(key);
    if (at == loaded.end()) at = loaded.emplace(key, golden_.load(dtype, pool_, GetParam().device)).first;
    return at->second;
  }

  const Golden& golden_;
  ThreadPool pool_;
};

TEST_P(Alignment, LogitsOfEachPromptAlone) {
  Model& model = load(DType::kF32);
  ModelExecutor executor(model, pool_, {.max_sequences = 1, .max_context = 256});
  for (const Case& c : golden_.cases) {
    if (!c.tokens.empty()) continue;
    for (size_t i = 0; i < c.prompts.size(); ++i) {
      double error = relative_error(c.logits[i], run_alone(executor, c.prompts[i]).data());
      EXPECT_TRUE(error <= kF32Bound) << c.name << ", prompt " << i << ": off by " << error;
    }
  }
}

TEST_P(Alignment, BatchedEqualsOneByOne) {
  const Case* ragged = golden_.find("ragged_batch");
  ASSERT_NE(ragged, nullptr);
  Model& model = load(DType::kF32);
  ThreadPool two(2);  // the other tests have one thread: passes of tiny models are too short to share
  ModelExecutor executor(model, two, {.max_sequences = 8, .max_context = 256});
  std::vector<std::vector<float>> rows = run_batched(executor, ragged->prompts);
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_LE(relative_error(ragged->logits[i], rows[i].data()), kF32Bound) << i;
}

TEST_P(Alignment, ChunkedPrefillEqualsOneShot) {
  Model& model = load(DType::kF32);
  for (int64_t chunk : {1, 3, 16}) {
    ModelExecutor executor(model, pool_, {.max_sequences = 1, .max_context = 256, .max_step_tokens = chunk});
    for (const Case& c : golden_.cases) {
      if (!c.tokens.empty()) continue;
      double error = relative_error(c.logits.back(), run_alone(executor, c.prompts.back()).data());
      EXPECT_TRUE(error <= kF32Bound) << c.name << " in chunks of " << chunk << ": off by " << error;
    }
  }
}

TEST_P(Alignment, EveryPositionHasTheSameArgmax) {
  Model& model = load(DType::kF32);
  ModelExecutor executor(model, pool_, {.max_sequences = 1, .max_context = 256});
  for (const Case& c : golden_.cases) {
    if (c.argmax.empty()) continue;
    RunningSequence sequence = executor.start();
    for (size_t t = 0; t < c.prompts[0].size(); ++t) {
      const NewTokens item{&sequence, {&c.prompts[0][t], 1}};
      std::vector<float> logits = on_host(executor.forward({&item, 1}));
      auto best = std::max_element(logits.begin(), logits.end());
      EXPECT_EQ(best - logits.begin(), c.argmax[0][t]) << c.name << " position " << t;
      EXPECT_NEAR(*best, c.max_logit[0][t], kF32Bound * c.max_logit[0][t]) << c.name << " position " << t;
    }
    executor.finish(sequence);
  }
}

// What the engine says of a prompt: at every position the likeliest token is transformers'.
TEST_P(Alignment, LogProbabilitiesOfAPrompt) {
  Model& model = load(DType::kF32);
  BatchingEngine engine(model, pool_, std::nullopt, {.max_num_seqs = 2, .max_num_batched_tokens = 24});
  for (const Case& c : golden_.cases) {
    if (c.argmax.empty()) continue;
    Request request;
    request.prompt = c.prompts[0];
    request.max_tokens = 0;
    request.prompt_logprobs = 1;
    std::vector<DrawnLogprobs> found;
    engine.submit(request, [&](RequestOutput output) { found = std::move(output.prompt_logprobs); });
    engine.run_until_idle();
    ASSERT_EQ(found.size() + 1, c.prompts[0].size()) << c.name;
    for (size_t t = 0; t < found.size(); ++t) {
      EXPECT_EQ(found[t].top.at(0).token, c.argmax[0][t]) << c.name << " position " << t;
      EXPECT_EQ(found[t].drawn.token, c.prompts[0][t + 1]);
    }
  }
}

TEST_P(Alignment, GreedyTokens) {
  const Case* greedy = golden_.find("greedy");
  ASSERT_NE(greedy, nullptr);
  Model& model = load(DType::kF32);
  ModelExecutor executor(model, pool_, {.max_sequences = 1, .max_context = 256});
  Sampler sampler(1, {.device = GetParam().device});
  auto tokens = generate(executor, sampler,
                         {.prompt = greedy->prompts[0],
                          .max_tokens = static_cast<int64_t>(greedy->tokens[0].size()),
                          .sampling = {},
                          .stop_tokens = {}});
  EXPECT_EQ(tokens, greedy->tokens[0]);
}

// A decoding sequence must not be affected by one that prefills in the same batch.
TEST_P(Alignment, DecodingBesidePrefilling) {
  const Case* ragged = golden_.find("ragged_batch");
  Model& model = load(DType::kF32);
  ModelExecutor executor(model, pool_, {.max_sequences = 4, .max_context = 256});
  const std::vector<int64_t>& a = ragged->prompts.back();
  const std::vector<int64_t>& b = ragged->prompts[1];
  RunningSequence first = executor.start(), second = executor.start();
  executor.prefill(first, std::span(a).first(a.size() - 1));
  const NewTokens items[] = {{&second, b}, {&first, std::span(a).last(1)}};
  View logits = executor.forward(items);
  EXPECT_LE(relative_error(ragged->logits[1], on_host(logits.narrow(0, 0, 1)).data()), kF32Bound);
  EXPECT_LE(relative_error(ragged->logits.back(), on_host(logits.narrow(0, 1, 1)).data()), kF32Bound);
}

// Transformers' own bf16 run is off by a measured share; with the same rounded weights we must not be worse than that
// by more than the spread between two orders of summation.
TEST_P(Alignment, Bf16StaysWithinTransformersOwnError) {
  Model& model = load(DType::kBF16);
  ModelExecutor executor(model, pool_, {.max_sequences = 1, .max_context = 256});
  for (const Case& c : golden_.cases) {
    for (size_t i = 0; i < c.logits_bf16_weights.size(); ++i) {
      double error = relative_error(c.logits_bf16_weights[i], run_alone(executor, c.prompts[i]).data());
      EXPECT_TRUE(error <= 1.5 * golden_.largest_bf16_error)
          << c.name << ": off by " << error << ", transformers by " << golden_.largest_bf16_error;
    }
  }
}

// The logits are those of f32 weights, so rounding them is part of both errors.
TEST_P(Alignment, F16StaysWithinTransformersOwnError) {
  Model& model = load(DType::kF16);
  ModelExecutor executor(model, pool_, {.max_sequences = 1, .max_context = 256});
  for (const Case& c : golden_.cases) {
    if (c.name == "greedy") continue;  // its logits are those of the last step
    for (size_t i = 0; i < c.logits.size(); ++i) {
      double error = relative_error(c.logits[i], run_alone(executor, c.prompts[i]).data());
      EXPECT_TRUE(error <= 1.5 * golden_.largest_f16_error)
          << c.name << ": off by " << error << ", transformers by " << golden_.largest_f16_error;
    }
  }
  for (const DispatchCount& d : collect_dispatches(*model.root)) EXPECT_NE(d.implementation, "oracle") << d.op;
}

INSTANTIATE_TEST_SUITE_P(Models, Alignment, testing::ValuesIn(subjects(kData)),
                         [](const auto& test) { return subject_name(test.param); });

}  // namespace
}  // namespace fk::golden
