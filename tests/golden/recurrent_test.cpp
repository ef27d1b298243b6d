// Models with a recurrent state: what they say must not depend on how their tokens were divided over calls, nor on the
// other sequences, and must not drift over thousands of tokens.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/device_runtime.h"
#include "engine/batching_engine.h"
#include "tests/golden/golden_model.h"

namespace fk::golden {
namespace {

std::vector<int64_t> alone(const Model& model, ThreadPool& pool, const std::vector<int64_t>& prompt) {
  BatchingEngine engine(model, pool, std::nullopt, {.max_num_seqs = 1, .max_model_len = 256});
  std::vector<int64_t> said;
  Request request;
  request.prompt = prompt;
  request.max_tokens = 20;
  request.ignore_eos = true;
  engine.submit(request, [&](const RequestOutput& o) { said.insert(said.end(), o.tokens.begin(), o.tokens.end()); });
  engine.run_until_idle();
  return said;
}

class Recurrent : public testing::TestWithParam<std::string> {
 protected:
  Recurrent() : golden_(GetParam()), pool_(2) {}

  Golden golden_;
  ThreadPool pool_;
};

// Small steps, so that prompts are cut at odd places while others decode; slots, and the few blocks of the second
// engine, go from one request to the next.
TEST_P(Recurrent, RequestsInABatchSayWhatTheySayAlone) {
  Model model = golden_.load(DType::kF32, pool_);
  std::vector<std::vector<int64_t>> prompts = golden_.find("ragged_batch")->prompts;
  prompts.push_back(golden_.find("greedy")->prompts[0]);
  std::vector<std::vector<int64_t>> expected;
  for (const auto& prompt : prompts) expected.push_back(alone(model, pool_, prompt));
  EXPECT_EQ(expected.back(), golden_.find("greedy")->tokens[0]);
  for (int64_t blocks : {0, 9}) {
    BatchingEngine engine(model, pool_, std::nullopt,
                          {.max_num_seqs = 4,
                           .max_num_batched_tokens = 7,
                           .max_model_len = 64,
                           .block_size = 8,
                           .num_blocks = blocks,
                           .run_ahead = blocks == 0});
    std::vector<std::vector<int64_t>> said(2 * prompts.size());
    for (size_t i = 0; i < said.size(); ++i) {
      Request request;
      request.prompt = prompts[i % prompts.size()];
      request.max_tokens = 20;
      request.ignore_eos = true;
      engine.submit(request, [&said, i](const RequestOutput& output) {
        said[i].insert(said[i].end(), output.tokens.begin(), output.tokens.end());
      });
    }
    engine.run_until_idle();
    for (size_t i = 0; i < said.size(); ++i) EXPECT_EQ(said[i], expected[i % prompts.size()]) << i << ", " << blocks;
  }
}

// One pass over the whole prompt, and odd pieces with single tokens between them, give the same logits.
TEST_P(Recurrent, OddPiecesOfAPromptGiveTheSameLogits) {
  Model model = golden_.load(DType::kF32, pool_);
  ModelExecutor executor(model, pool_, {.max_sequences = 2, .max_context = 256});
  const Case* c = golden_.find("long");
  if (c == nullptr) c = golden_.find("ragged_batch");
  const std::vector<int64_t>& prompt = c->prompts.back();
  RunningSequence sequence = executor.start();
  std::vector<float> logits;
  size_t at = 0;
  for (size_t piece = 1; at < prompt.size(); piece = piece * 2 % 67 + 1) {
    size_t count = std::min(piece, prompt.size() - at);
    const NewTokens item{&sequence, std::span(prompt).subspan(at, count)};
    logits = on_host(executor.forward({&item, 1}));
    at += count;
  }
  executor.finish(sequence);
  EXPECT_LE(relative_error(c->logits.back(), logits.data()), 1e-4);
}

// After 4096 steps we are as near to float64 as the reference is; in bf16 states stay f32, so that we are not farther.
class LongRecurrent : public testing::TestWithParam<Subject> {
 protected:
  LongRecurrent() : golden_(GetParam().model), pool_(2) {}
  void SetUp() override {
    if (std::string why = device_missing(GetParam().device); !why.empty()) GTEST_SKIP() << why;
  }

  Golden golden_;
  ThreadPool pool_;
};

TEST_P(LongRecurrent, SlowDoesNotDriftOverThousandsOfTokens) {
  Json json = parse_json_file(kData + GetParam().model + ".json");
  if (!json.contains("drift")) GTEST_SKIP() << "no long run is stored for this model";
  const Json& drift = json.at("drift");
  const std::vector<int64_t> prompt = drift.at("prompt");
  struct Run {
    DType dtype;
    const char *logits, *error;
  };
  for (const Run& run :
       {Run{DType::kF32, "logits", "f32_error"}, Run{DType::kBF16, "logits_bf16_weights", "bf16_error"}}) {
    Model model = golden_.load(run.dtype, pool_, GetParam().device);
    const double allowed = std::max(1e-4, 1.5 * drift.at(run.error).get<double>());
    for (int64_t piece : {1, 8, 512, 4096}) {
      ModelExecutor executor(model, pool_, {.max_sequences = 1, .max_context = 4097, .max_step_tokens = piece});
      RunningSequence sequence = executor.start();
      std::vector<float> logits;
      for (size_t at = 0; at < prompt.size(); at += static_cast<size_t>(piece)) {
        const NewTokens item{&sequence, std::span(prompt).subspan(at, static_cast<size_t>(piece))};
        logits = on_host(executor.forward({&item, 1}));
      }
      executor.finish(sequence);
      EXPECT_LE(relative_error(drift.at(run.logits), logits.data()), allowed)
          << dtype_name(run.dtype) << " in pieces of " << piece;
    }
  }
}

const std::vector<std::string> kRecurrentModels = {
    "tiny-gla",       "tiny-gla-grouped",    "tiny-retnet",      "tiny-retnet-plain",    "tiny-rwkv7",
    "tiny-rwkv7-odd", "tiny-qwen3-next-odd", "tiny-kimi-linear", "tiny-kimi-linear-odd", "tiny-kimi-linear-groups"};

std::vector<Subject> on_all_devices() {
  std::vector<Subject> list;
  for (const Subject& s : subjects(kData))
    if (std::count(kRecurrentModels.begin(), kRecurrentModels.end(), s.model) > 0) list.push_back(s);
  return list;
}

INSTANTIATE_TEST_SUITE_P(Models, Recurrent, testing::ValuesIn(kRecurrentModels),
                         [](const auto& test) { return subject_name({test.param}); });
INSTANTIATE_TEST_SUITE_P(Models, LongRecurrent, testing::ValuesIn(on_all_devices()),
                         [](const auto& test) { return subject_name(test.param); });

}  // namespace
}  // namespace fk::golden
