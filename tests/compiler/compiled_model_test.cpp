// A compiled model behaves as the tree does in everything that runs models: executor, decode loop, encoder. The
// batching engine: compiled_engine_test.cpp.
#include "compiler/plan/compiled_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/plan/plan_observer.h"
#include "core/error.h"
#include "engine/encoder.h"
#include "tests/compiler/region_by_calls.h"
#include "tests/engine/allocation_count.h"
#include "tests/engine/generate.h"

namespace fk {
namespace {

std::vector<int64_t> prompt_of(const Model& model, int64_t n, int64_t start = 3) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < n; ++i) ids.push_back((start + 7 * i * i + 5 * i) % model.config.facts.vocab_size);
  return ids;
}

std::vector<float> row_of(const View& logits) { return {logits.ptr<float>(), logits.ptr<float>() + logits.numel()}; }

// Prompts in odd chunks, two sequences at once, a step with both kinds, a decode loop: all logits and tokens.
std::vector<float> everything(const Model& model, ThreadPool& pool) {
  ModelExecutor executor(model, pool, {.max_sequences = 2, .max_context = 96, .max_step_tokens = 7});
  std::vector<float> all;
  auto keep = [&](const View& logits) {
    std::vector<float> row = row_of(logits);
    all.insert(all.end(), row.begin(), row.end());
  };
  RunningSequence a = executor.start(), b = executor.start();
  const std::vector<int64_t> first = prompt_of(model, 38), second = prompt_of(model, 5, 11);
  keep(executor.prefill(a, first));
  const int64_t next = 9, other = 4;
  const NewTokens decode{&a, {&next, 1}};
  keep(executor.forward({&decode, 1}));
  const NewTokens mixed[] = {{&a, {&other, 1}}, {&b, second}};
  keep(executor.forward(mixed));
  const NewTokens both[] = {{&a, {&next, 1}}, {&b, {&other, 1}}};
  keep(executor.forward(both));
  DecodeLoop loop(executor, 2);
  RunningSequence* sequences[] = {&a, &b};
  const int64_t tokens[] = {1, 2}, drawn[] = {0, 0};
  const SamplingParams greedy[2] = {};
  loop.start(sequences, tokens, greedy, drawn, 20);
  for (int i = 0; i < 20; ++i) {
    loop.step();
    for (int64_t token : loop.drawn()) all.push_back(static_cast<float>(token));
  }
  keep(loop.logits());
  executor.finish(a);
  executor.finish(b);
  return all;
}

class CompiledModelTest : public testing::TestWithParam<const char*> {};

TEST_P(CompiledModelTest, EqualsTheTreeInEveryStep) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    ThreadPool pool(2);
    Model model =
        load_model(resolve_model(GetParam()), {.format = LoadFormat::kDummy, .dtype = dtype, .seed = 3}, pool);
    const std::vector<float> by_tree = everything(model, pool);
    {
      CompiledModel compiled(model);
      const std::vector<float> by_plan = everything(model, pool);
      ASSERT_EQ(by_plan.size(), by_tree.size());
      EXPECT_EQ(std::memcmp(by_plan.data(), by_tree.data(), by_tree.size() * sizeof(float)), 0);
      EXPECT_EQ(compiled.calls_by_tree(), 0);
      for (GraphPhase phase : {GraphPhase::kPrefill, GraphPhase::kDecode, GraphPhase::kMixed})
        EXPECT_NE(compiled.plan(phase), nullptr) << phase_name(phase);
    }
    EXPECT_FALSE(model.instead);
  }
}

TEST_P(CompiledModelTest, DecodingAllocatesNothing) {
  ThreadPool pool(1);
  Model model = load_model(resolve_model(GetParam()), {.format = LoadFormat::kDummy}, pool);
  CompiledModel compiled(model);
  ModelExecutor executor(model, pool, {.max_sequences = 1, .max_context = 96});
  RunningSequence sequence = executor.start();
  executor.prefill(sequence, prompt_of(model, 20));
  const int64_t token = 3;
  const NewTokens item{&sequence, {&token, 1}};
  for (int i = 0; i < 4; ++i) executor.forward({&item, 1});
  const int64_t before = allocation_count();
  for (int i = 0; i < 40; ++i) executor.forward({&item, 1});
  EXPECT_EQ(allocation_count() - before, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, CompiledModelTest,
                         testing::Values("tiny-llama", "tiny-qwen3-moe", "tiny-mamba", "tiny-gpt-oss-mxfp4",
                                         "tiny-deepseek-v3", "tiny-gemma3", "tiny-rwkv7"),
                         [](const testing::TestParamInfo<const char*>& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(CompiledModel, QuantisedWeightsGiveTheSameBits) {
  for (const char* format : {"fp8", "int8"}) {
    SCOPED_TRACE(format);
    ThreadPool pool(1);
    Model model = load_model(resolve_model("tiny-llama"), {.format = LoadFormat::kDummy, .quantization = format}, pool);
    const std::vector<float> by_tree = everything(model, pool);
    CompiledModel compiled(model);
    EXPECT_EQ(everything(model, pool), by_tree);
  }
}

TEST(CompiledModel, EncodersGiveTheSameVectors) {
  for (const char* name : {"tiny-xlm-roberta", "tiny-siglip"}) {
    SCOPED_TRACE(name);
    ThreadPool pool(1);
    Model model = load_model(resolve_model(name), {.format = LoadFormat::kDummy}, pool);
    std::unique_ptr<Encoder> encoder = make_encoder(model, pool);
    for (int64_t texts : {1, 3}) {
      const EncoderInput input = encoder->random_input(texts, 13, 5);
      auto bytes = [&] {
        const View v = encoder->forward(input).last_hidden_state;
        return std::vector<std::byte>(static_cast<std::byte*>(v.data()),
                                      static_cast<std::byte*>(v.data()) + v.size_bytes());
      };
      const auto by_tree = bytes();
      CompiledModel compiled(model);
      EXPECT_EQ(bytes(), by_tree);
      EXPECT_EQ(compiled.calls_by_tree(), 0);
    }
  }
}

// An observer that hears only of beginnings gets the calls of the tree, compositions included.
TEST(CompiledModel, RecordersSeeTheTree) {
  class Recorder final : public CallObserver {
   public:
    bool before_call(const Node& node, const Context&, Args) override {
      compositions += node.info().level > 1 ? 1 : 0;
      return true;
    }
    int compositions = 0;
  } recorder;
  ThreadPool pool(1);
  Model model = load_model(resolve_model("tiny-llama"), {.format = LoadFormat::kDummy}, pool);
  CompiledModel compiled(model);
  ModelExecutor executor(model, pool, {.max_context = 32});
  executor.observe(&recorder);
  RunningSequence sequence = executor.start();
  executor.prefill(sequence, prompt_of(model, 6));
  EXPECT_GT(recorder.compositions, 5);
  EXPECT_EQ(compiled.calls_by_tree(), 1);
}

// A kernel of a region that is wrong, or does not work at all.
class FaultyKernel final : public RegionKernel {
 public:
  FaultyKernel(float value, std::string what) : value_(value), what_(std::move(what)) {}
  std::string_view refuse(std::span<const View>, std::span<const View>) const override { return {}; }
  void run(Context&, std::span<const View>, std::span<const View> outputs) override {
    if (!what_.empty()) throw Error("{}", what_);
    for (const View& out : outputs)
      for (int64_t i = 0; i < out.numel(); ++i)
        store_element(static_cast<std::byte*>(out.data()) + i * static_cast<int64_t>(dtype_size(out.dtype())),
                      out.dtype(), i == 3 ? value_ : 1.0);
  }

 private:
  float value_;
  std::string what_;
};

// The second activation of the model, as a region of its own.
FindRegions faulty_region(float value, const std::string& what) {
  return [=](GraphPhase, const GraphBody& body) {
    std::vector<PlannedRegion> list;
    for (size_t n = 0; n < body.nodes.size(); ++n)
      if (body.nodes[n].op == "silu_and_mul" && body.nodes[n].path.starts_with("model.layers.1"))
        list.push_back({region_of(body, {n}), std::make_shared<FaultyKernel>(value, what)});
    return list;
  };
}

std::string error_of(float value, const std::string& what, bool check, float weight = 0) {
  ThreadPool pool(1);
  Model model = load_model(resolve_model("tiny-llama"), {.format = LoadFormat::kDummy}, pool);
  if (weight != 0) store_element(model.weight("model.layers.0.input_layernorm.weight").data(), DType::kBF16, weight);
  CompiledModel compiled(model, what.empty() && std::isfinite(value) ? FindRegions() : faulty_region(value, what),
                         {.check_every_step = check});
  ModelExecutor executor(model, pool, {.max_context = 32});
  RunningSequence sequence = executor.start();
  try {
    executor.prefill(sequence, prompt_of(model, 6));
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(CompiledModel, CheckingEveryStepNamesTheFirstThatFails) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(error_of(1, "", true), "");
  EXPECT_EQ(error_of(kNaN, "", false), "");
  EXPECT_EQ(
      error_of(kNaN, "", true),
      "Step 20 of 25, the region silu_and_mul at 'model.layers.1.mlp.act_fn', gave nan at [0, 3] in its output 'out'.");
  EXPECT_EQ(error_of(-kInf, "", true),
            "Step 20 of 25, the region silu_and_mul at 'model.layers.1.mlp.act_fn', gave -inf at [0, 3] in its output "
            "'out'.");
  EXPECT_EQ(error_of(0, "no such instruction", true),
            "Step 20 of 25, the region silu_and_mul at 'model.layers.1.mlp.act_fn', failed: no such instruction");
  EXPECT_EQ(error_of(1, "", true, kInf),
            "Step 2 of 25, rms_norm at 'model.layers.0.input_layernorm', gave inf at [0, 0] in its output 'out'.");
}

TEST(CompiledModel, HealthyModelsPassTheCheckOfEveryStep) {
  for (const char* name :
       {"tiny-llama", "tiny-qwen3-moe", "tiny-deepseek-v3", "tiny-mamba", "tiny-rwkv7", "tiny-glm4-moe-groups"}) {
    SCOPED_TRACE(name);
    ThreadPool pool(1);
    Model model = load_model(resolve_model(name), {.format = LoadFormat::kDummy}, pool);
    const std::vector<float> by_tree = everything(model, pool);
    CompiledModel compiled(model, {}, {.check_every_step = true});
    EXPECT_EQ(everything(model, pool), by_tree);
  }
}

}  // namespace
}  // namespace fk
