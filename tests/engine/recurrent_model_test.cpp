// A model with states of both kinds, run by the engine: its output depends on all earlier tokens, so it shows whether a
// sequence keeps its own slot and its own blocks, and starts from zero.
#include <gtest/gtest.h>

#include <algorithm>
#include "engine/batching_engine.h"
#include "engine/decode_loop.h"

#include "models/family.h"
#include "ops/l4/causal_lm.h"
#include "ops/register.h"
#include "tests/engine/generate.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

constexpr int64_t kVocabulary = 97;

// The recurrent state after one more token; numbers this small are exact in f32.
int64_t mixed(int64_t memory, int64_t token) { return (3 * memory + token + 1) % kVocabulary; }

// The most likely next token is the recurrent state plus the first token of the sequence.
class ToyRecurrentLM : public CausalLM<ToyRecurrentLM, DecoderModelInit> {
 public:
  static constexpr std::string_view kName = "toy_recurrent_lm";
  static constexpr std::string_view kClass = "ToyRecurrentLM";
  using CausalLM::CausalLM;

  static DecoderLayerInit layer(const Init& init, int64_t) { return common_layer(init); }
  static std::vector<StateSpec> states(const Init&) {
    return {{"memory", StateKind::kPerSequence, {1}, DType::kF32}, {"tokens", StateKind::kPerToken, {1}, DType::kF32}};
  }
  static std::vector<Case<ToyRecurrentLM>> cases() { return {}; }
};

class ToyRecurrentOracle final : public ToyRecurrentLM {
 public:
  using ToyRecurrentLM::ToyRecurrentLM;

  void forward(Context& ctx, View input_ids, View, View logits_indices, View logits) override {
    const View &memory = own_state(ctx, 0), &tokens = own_state(ctx, 1);
    std::vector<int64_t> said(static_cast<size_t>(input_ids.size(0)));
    int64_t first = 0, page = tokens.size(1);
    for (const SequenceGroup* group : {&ctx.attention->decode, &ctx.attention->prefill}) {
      for (int64_t s = 0; s < group->num_sequences; ++s) {
        auto slot = static_cast<int64_t>(get(group->state_slots, s));
        auto now = static_cast<int64_t>(get(memory, slot, 0));
        for (int64_t t = first + group->cu_seqlens_q.ptr<int32_t>()[s];
             t < first + group->cu_seqlens_q.ptr<int32_t>()[s + 1]; ++t) {
          int64_t at = ctx.attention->slot_mapping.ptr<int64_t>()[t];
          set(tokens, get(input_ids, t), at / page, at % page, 0);
          now = mixed(now, input_ids.ptr<int64_t>()[t]);
          auto start = static_cast<int64_t>(get(tokens, static_cast<int64_t>(get(group->block_table, s, 0)), 0, 0));
          said[static_cast<size_t>(t)] = (now + start) % kVocabulary;
        }
        set(memory, static_cast<double>(now), slot, 0);
      }
      first += group->num_tokens;
    }
    for (int64_t l = 0; l < logits.size(0); ++l) {
      int64_t best = said[static_cast<size_t>(logits_indices.ptr<int64_t>()[l])];
      for (int64_t v = 0; v < kVocabulary; ++v) set(logits, v == best ? 1 : 0, l, v);
    }
  }
};

FK_OPERATOR(ToyRecurrentLM, ToyRecurrentOracle);

// A family from outside src/: these lines are all it takes.
ToyRecurrentLM::Init read_toy(const FamilyFields& fields) {
  ToyRecurrentLM::Init init;
  read_decoder(fields, {}, init);
  return init;
}
const RegisterFamily<ToyRecurrentLM, read_toy> kToy({.name = "toy", .category = "toy", .model_type = "toy"});

std::vector<int64_t> expected(const std::vector<int64_t>& prompt, int64_t count) {
  std::vector<int64_t> all;
  int64_t memory = 0;
  for (int64_t token : prompt) memory = mixed(memory, token);
  for (int64_t i = 0; i < count; ++i) {
    all.push_back((memory + prompt[0]) % kVocabulary);
    memory = mixed(memory, all.back());
  }
  return all;
}

class RecurrentModel : public testing::Test {
 protected:
  RecurrentModel() {
    model_.name = "toy";
    model_.config.facts = {.vocab_size = kVocabulary, .max_position_embeddings = 64, .dtype = DType::kF32};
    ToyRecurrentLM::Init init{.vocab_size = kVocabulary, .max_position_embeddings = 64, .dtype = DType::kF32};
    model_.root = Registry::instance().at("toy_recurrent_lm").build(to_fields(init), {});
  }

  ThreadPool pool_{1};
  Model model_;
  const std::vector<int64_t> prompt_ = {5, 90, 3, 3, 17, 0, 41, 8, 8, 60}, other_ = {60, 2, 7};
};

TEST_F(RecurrentModel, SpeaksTheSameInChunksAndAgain) {
  for (int64_t chunk : {64, 4}) {
    ModelExecutor executor(model_, pool_,
                           {.max_sequences = 1, .max_context = 32, .max_step_tokens = chunk, .page_size = 8});
    Sampler sampler(1, {});
    for (const std::vector<int64_t>& prompt : {prompt_, other_, prompt_})
      EXPECT_EQ(generate(executor, sampler, {.prompt = prompt, .max_tokens = 12, .sampling = {}, .stop_tokens = {}}),
                expected(prompt, 12))
          << "in chunks of " << chunk;
  }
}

// Slots go from one request to the next, and preempted requests start from zero again.
TEST_F(RecurrentModel, BatchesKeepTheStatesOfTheirRequests) {
  for (int64_t blocks : {0, 5}) {
    BatchingEngine engine(model_, pool_, std::nullopt,
                          {.max_num_seqs = 2, .max_num_batched_tokens = 4, .block_size = 8, .num_blocks = blocks});
    std::vector<std::vector<int64_t>> said(6);
    auto prompt = [&](size_t i) { return i % 2 == 0 ? prompt_ : other_; };
    for (size_t i = 0; i < said.size(); ++i) {
      Request request;
      request.prompt = prompt(i);
      request.max_tokens = 12;
      engine.submit(request, [&said, i](const RequestOutput& output) {
        said[i].insert(said[i].end(), output.tokens.begin(), output.tokens.end());
      });
    }
    engine.run_until_idle();
    for (size_t i = 0; i < said.size(); ++i) EXPECT_EQ(said[i], expected(prompt(i), 12)) << i;
    EXPECT_EQ(engine.stats().cached_prompt_tokens, 0) << "states cannot be shared";
  }
}

TEST_F(RecurrentModel, SequencesSideBySideKeepTheirOwn) {
  ModelExecutor executor(model_, pool_, {.max_sequences = 3, .max_context = 32});
  DecodeLoop loop(executor, 3);
  auto first_of = [&](View logits) {
    const float* row = logits.ptr<float>();
    return std::max_element(row, row + kVocabulary) - row;
  };
  for (int round = 0; round < 2; ++round) {  // slots are freed in another order
    RunningSequence a = executor.start(), b = executor.start();
    std::vector<int64_t> tokens = {first_of(executor.prefill(a, prompt_)), first_of(executor.prefill(b, other_))};
    EXPECT_NE(a.state_slot, b.state_slot);
    std::vector<int64_t> said_a = {tokens[0]}, said_b = {tokens[1]};
    RunningSequence* both[] = {&a, &b};
    const SamplingParams greedy[2] = {};
    const int64_t drawn[2] = {1, 1};
    loop.start(both, tokens, greedy, drawn, 10);
    for (int i = 0; i < 10; ++i) {
      loop.step();
      said_a.push_back(loop.drawn()[0]);
      said_b.push_back(loop.drawn()[1]);
    }
    EXPECT_EQ(said_a, expected(prompt_, 11));
    EXPECT_EQ(said_b, expected(other_, 11));
    executor.finish(a);
    executor.finish(b);
  }
}

TEST(ToyFamily, IsReadFromItsConfigAndRun) {
  TempDirectory folder;
  folder.write("config.json", R"({"architectures":["ToyRecurrentLM"],"model_type":"toy","vocab_size":97,"hidden_size":8,
      "intermediate_size":8,"num_hidden_layers":1,"num_attention_heads":1,"max_position_embeddings":64})");
  ThreadPool pool(1);
  Model model = load_model(resolve_model(folder.path()), {.format = LoadFormat::kDummy, .dtype = DType::kF32}, pool);
  EXPECT_EQ(model.config.family->category, "toy");
  EXPECT_EQ(model.config.facts.task, Task::kCausalLM);
  ModelExecutor executor(model, pool, {.max_sequences = 1, .max_context = 32});
  Sampler sampler(1, {});
  const std::vector<int64_t> prompt = {4, 8, 15};
  EXPECT_EQ(generate(executor, sampler, {.prompt = prompt, .max_tokens = 6, .sampling = {}, .stop_tokens = {}}),
            expected(prompt, 6));
}

}  // namespace
}  // namespace fk
