// Guesses by an EAGLE-3 head: the target keeps what its layers are given, and tokens are those without it: for every
// target, after preemptions, with shared pages, under sampling, beside requests that leave.
#include "engine/eagle_head.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "core/device_runtime.h"
#include "core/error.h"
#include "core/json.h"
#include "engine/batching_engine.h"
#include "models/catalog.h"
#include "models/config.h"
#include "tests/engine/representative_models.h"
#include "tests/engine/spoken.h"

namespace fk {
namespace {

constexpr SpeculativeOptions kEagle{.num_speculative_tokens = 4, .method = SpeculativeMethod::kEagle3};

Model load_tiny(const ModelSource& source, ThreadPool& pool, uint64_t seed = 5) {
  return load_model(source, {.format = LoadFormat::kDummy, .dtype = DType::kF32, .seed = seed}, pool);
}

// A head that fits the target; `own`: fields of its config.json.
ModelSource head_for(const ModelSource& target, const Json& own = Json::object()) {
  const ModelFacts& facts = target.config.facts;
  Json json = {{"architectures", {"LlamaForCausalLMEagle3"}},
               {"hidden_size", 32},
               {"intermediate_size", 50},
               {"num_hidden_layers", 1},
               {"num_attention_heads", 4},
               {"num_key_value_heads", 2},
               {"head_dim", 8},
               {"vocab_size", facts.vocab_size},
               {"draft_vocab_size", facts.vocab_size / 2},
               {"target_hidden_size", facts.hidden_size},
               {"max_position_embeddings", facts.max_position_embeddings},
               {"eagle_aux_hidden_state_layer_ids", {0, facts.num_hidden_layers / 2, facts.num_hidden_layers}}};
  json.update(own);
  return {.name = "head", .config = config_from_json(json, "head"), .directory = "", .tokenizer = ""};
}

class Eagled {
 public:
  explicit Eagled(const std::string& target, const Json& own = Json::object())
      : pool_(1), source_(resolve_model(target)), head_source_(head_for(source_, own)) {
    plain_ = load_tiny(source_, pool_);
    ModelSource kept = source_;
    kept.config.set_aux_hidden_states(wanted_hidden_states(head_source_, source_));
    target_ = load_tiny(kept, pool_);
    head_ = load_tiny(head_source_, pool_);
  }

  ThreadPool& pool() { return pool_; }
  Model& plain() { return plain_; }
  Model& target() { return target_; }
  Model& head() { return head_; }

  // The next token is a function of the last one, and the head knows the function: its attention sees its own token
  // only, and gives the embedding to the output head, which is the target's. Hidden states count nothing behind a norm
  // of zeros.
  void agree() {
    for (Model* model : {&plain_, &target_})
      walk(*model->root, [&](const Node& node, int) {
        for (const ParamSpec& param : node.own_params())
          if (param.name.ends_with("o_proj.weight") || param.name.ends_with("down_proj.weight"))
            clear(model->weight(param.name));
      });
    const int64_t width = head_.config.facts.hidden_size;
    for (const char* name :
         {"midlayer.hidden_norm.weight", "midlayer.mlp.down_proj.weight", "midlayer.self_attn.qkv_proj.weight",
          "midlayer.self_attn.qkv_proj.bias", "midlayer.self_attn.o_proj.weight", "midlayer.self_attn.o_proj.bias"})
      clear(head_.weight(name));
    auto* qkv = head_.weight("midlayer.self_attn.qkv_proj.weight").ptr<float>();
    auto* bias = head_.weight("midlayer.self_attn.qkv_proj.bias").ptr<float>();
    for (int64_t i = 0; i < width; ++i) {
      bias[i] = bias[width + i] = 30;  // queries and keys: rotated alike where the token is the same
      qkv[(2 * width + i) * 2 * width + i] = 1;
      head_.weight("midlayer.self_attn.o_proj.weight").ptr<float>()[i * width + i] = 1;
      head_.weight("midlayer.input_layernorm.weight").ptr<float>()[i] = 1;
    }
    copy("model.embed_tokens.weight", "embed_tokens.weight");
    copy("model.norm.weight", "norm.weight");
    const int64_t known = std::get<int64_t>(*find_field(head_.config.init, "draft_vocab_size"));
    const int64_t all = head_.config.facts.vocab_size;
    if (known == all) return copy("lm_head.weight", "lm_head.weight");
    // It knows every second token, and the target draws no others.
    for (int64_t i = 0; i < all; ++i)
      for (Model* model : {&plain_, &target_}) {
        float* row = model->weight("lm_head.weight").ptr<float>() + i * width;
        if (i % 2 == 1 || i / 2 >= known)
          std::fill_n(row, width, 0.0f);
        else
          std::copy_n(row, width, head_.weight("lm_head.weight").ptr<float>() + i / 2 * width);
      }
    for (int64_t i = 0; i < known; ++i) head_.weight("d2t").ptr<int64_t>()[i] = i;
    head_.root->bind([&](const std::string& name) { return head_.weight(name); });
  }

  Request request(int64_t first, int64_t prompt_tokens, int64_t max_tokens) const {
    Request r;
    for (int64_t i = 0; i < prompt_tokens; ++i)
      r.prompt.push_back((first + 31 * i + i * i) % source_.config.facts.vocab_size);
    r.max_tokens = max_tokens;
    return r;
  }
  // Of 9 and more tokens in the prompt, each `further` more than the one before.
  std::vector<Request> various(int64_t further = 12, int64_t max_tokens = 30) const {
    std::vector<Request> requests;
    for (int64_t i = 0; i < 5; ++i) requests.push_back(request(3 + 7 * (i / 2), 9 + further * i, max_tokens));
    requests[3].sampling.temperature = 0.9;
    requests[3].sampling.seed = 4;
    requests.push_back(request(1, 1, max_tokens / 3 * 2));
    return requests;
  }

  std::vector<Spoken> without(const std::vector<Request>& requests, const BatchingOptions& options = {}) {
    BatchingEngine engine(plain_, pool_, std::nullopt, options);
    return run(engine, requests);
  }
  std::vector<Spoken> with(BatchingOptions options, const std::vector<Request>& requests) {
    if (options.speculative.num_speculative_tokens == 0) options.speculative = kEagle;
    BatchingEngine engine(target_, pool_, std::nullopt, options, &head_);
    std::vector<Spoken> results = run(engine, requests);
    stats_ = engine.stats();
    EXPECT_EQ(stats_.blocks_used, 0);
    return results;
  }
  static std::vector<Spoken> run(BatchingEngine& engine, const std::vector<Request>& requests) {
    std::vector<Spoken> results(requests.size());
    for (size_t i = 0; i < requests.size(); ++i)
      engine.submit(requests[i], [&results, i](RequestOutput output) { results[i].add(std::move(output)); });
    engine.run_until_idle();
    for (const Spoken& result : results) EXPECT_EQ(result.ends, 1);
    return results;
  }

  const EngineStats& stats() const { return stats_; }
  static void expect_nearly_all_right(const EngineStats& stats) {
    EXPECT_GT(stats.draft_tokens, 0);
    EXPECT_GE(static_cast<double>(stats.accepted_tokens), 0.97 * static_cast<double>(stats.draft_tokens))
        << stats.accepted_tokens << " of " << stats.draft_tokens;
  }

 private:
  static void clear(const View& weight) { std::fill_n(weight.ptr<float>(), weight.numel(), 0.0f); }
  void copy(const std::string& from, const std::string& to) { copy_between(target_.weight(from), head_.weight(to)); }

  ThreadPool pool_;
  ModelSource source_, head_source_;
  Model plain_, target_, head_;
  EngineStats stats_;
};

// Heads as wide as the target, whose values hold whole embeddings.
Json wide_head(const char* target, int64_t draft_vocabulary) {
  const int64_t width = resolve_model(target).config.facts.hidden_size;
  return {{"hidden_size", width},        {"num_attention_heads", 4}, {"num_key_value_heads", 4},
          {"head_dim", width / 4},       {"attention_bias", true},   {"draft_vocab_size", draft_vocabulary},
          {"norm_before_residual", true}};
}

std::vector<std::string> tiny_targets() {
  std::vector<std::string> names;
  for (const CatalogEntry& entry : catalog())
    if (entry.name.starts_with("tiny-") && entry.config.facts.task == Task::kCausalLM) names.push_back(entry.name);
  return names;
}

bool is_recurrent(const std::string& name) {
  return has_recurrent_states(*build_model(resolve_model(name).config, {}));
}

class EagleOfModels : public testing::TestWithParam<std::string> {};

TEST_P(EagleOfModels, DrawsTheTokensOfTheTarget) {
  if (is_recurrent(GetParam())) {
    BatchingOptions options;
    options.speculative = kEagle;
    try {
      check_model_allows(resolve_model(GetParam()), options, kCpu);
      FAIL() << "recurrent states cannot go back";
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find("recurrent states"), std::string::npos) << e.what();
    }
    return;
  }
  Eagled s(GetParam());
  const std::vector<Request> requests = s.various(6, 15);  // past every window of these models
  const std::vector<Spoken> plain = s.without(requests);
  expect_same(s.with({}, requests), plain);
  EXPECT_GT(s.stats().draft_tokens, 0);
  const BatchingOptions tight{.max_num_seqs = 4,
                              .max_num_batched_tokens = 9,
                              .block_size = 4,
                              .num_blocks = 20,
                              .run_ahead = true,
                              .speculative = {.num_speculative_tokens = 7, .method = SpeculativeMethod::kEagle3}};
  expect_same(s.with(tight, requests), plain);
  EXPECT_GT(s.stats().draft_tokens, 0);
}

// What a layer is given is what the target keeps, for every token and in every batch.
class KeptHiddenStatesOf : public testing::TestWithParam<std::string> {};

TEST_P(KeptHiddenStatesOf, AreWhatLayersAreGiven) {
  struct Seen final : CallObserver {
    bool before_call(const Node& node, const Context&, std::span<const OptView> args) override {
      if (node.info().level != 3) return true;
      std::vector<double>& values = by_layer[node.path()];
      values.clear();
      const bool has_residual = args.size() > 2 && node.info().args[2].name == "residual" && args[2];
      for (int64_t t = 0; t < args[1]->size(0); ++t)
        for (int64_t i = 0; i < args[1]->size(1); ++i)
          values.push_back(at(*args[1], t, i) + (has_residual ? at(*args[2], t, i) : 0));
      return true;
    }
    static double at(const View& view, int64_t row, int64_t i) {
      return view.ptr<float>()[row * view.stride(0) + i * view.stride(1)];
    }
    std::map<std::string, std::vector<double>> by_layer;
  };
  Eagled s(GetParam());
  const int64_t width = s.target().config.facts.hidden_size, middle = s.target().config.facts.num_hidden_layers / 2;
  StepExecutor executor(s.target(), s.pool(),
                        {.max_sequences = 2, .max_tokens = 64, .max_context = 64, .page_size = 8, .blocks = 8});
  Seen seen;
  executor.observe(&seen);
  const std::vector<int32_t> blocks = {3, 1, 6, 0};
  const Request request = s.request(3, 21, 1);
  const std::vector<std::span<const int64_t>> tokens{request.prompt};
  for (auto [first, count] : {std::pair<int64_t, int64_t>{0, 13}, {13, 7}, {20, 1}}) {
    StepPlan plan;
    plan.rows.push_back({.request = 1, .first = first, .count = count, .draws = true, .blocks = blocks});
    executor.forward(plan, tokens);
    for (int64_t t = 0; t < count; ++t)
      for (auto [place, layer] : {std::pair<int64_t, int64_t>{0, 0}, {1, middle}}) {
        const std::vector<double>& given = seen.by_layer.at("model.layers." + std::to_string(layer));
        const int64_t slot = blocks[static_cast<size_t>((first + t) / 8)] * 8 + (first + t) % 8;
        for (int64_t i = 0; i < width; ++i)
          ASSERT_NEAR(executor.states()[static_cast<size_t>(place)].ptr<float>()[slot * width + i],
                      given[static_cast<size_t>(t * width + i)], 1e-5)
              << "token " << first + t << ", layer " << layer;
      }
  }
}

std::vector<std::string> targets_with_attention() {
  std::vector<std::string> names = tiny_targets();
  std::erase_if(names, is_recurrent);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Models, EagleOfModels, testing::ValuesIn(part_of_sweep(tiny_targets(), true)), name_of_model);
INSTANTIATE_TEST_SUITE_P(SlowModels, EagleOfModels, testing::ValuesIn(part_of_sweep(tiny_targets(), false)),
                         name_of_model);
INSTANTIATE_TEST_SUITE_P(Models, KeptHiddenStatesOf, testing::ValuesIn(targets_with_attention()), name_of_model);

TEST(EagleHeadTest, AHeadThatKnowsTheTargetIsRight) {
  for (int64_t known : {320, 160}) {
    SCOPED_TRACE(known);
    Eagled s("tiny-llama", wide_head("tiny-llama", known));
    s.agree();
    std::vector<Request> requests = s.various();
    if (known < 320) requests[3].sampling = {};  // it does not know everything that may be drawn
    const std::vector<Spoken> plain = s.without(requests);
    expect_same(s.with({}, requests), plain);
    Eagled::expect_nearly_all_right(s.stats());
    EXPECT_LT(s.stats().steps, 16) << "five tokens in most steps";
    const BatchingOptions small{.max_num_batched_tokens = 11, .block_size = 4, .num_blocks = 52};
    expect_same(s.with(small, requests), plain);
    Eagled::expect_nearly_all_right(s.stats());
    const std::vector<Request> longer = {s.request(3, 9, 110), s.request(4, 21, 110), s.request(5, 33, 110)};
    expect_same(s.with(small, longer), s.without(longer));
    EXPECT_GT(s.stats().preemptions, 0);
    Eagled::expect_nearly_all_right(s.stats());
  }
}

TEST(EagleHeadTest, IsRightUnderSampling) {
  Eagled s("tiny-llama", wide_head("tiny-llama", 320));
  s.agree();
  std::vector<Request> requests(4, s.request(3, 20, 40));
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].sampling.temperature = 0.7 + 0.2 * static_cast<double>(i);
    requests[i].sampling.seed = i;
    requests[i].sampling.top_p = 0.95;
  }
  requests[3].sampling.logit_bias = {{20, 4.0f}, {21, 4.0f}};
  const std::vector<Spoken> plain = s.without(requests);
  EXPECT_NE(plain[0].tokens, plain[1].tokens);
  expect_same(s.with({}, requests), plain);
  Eagled::expect_nearly_all_right(s.stats());
}

// The hidden states of a page are there whoever computed it, so the head can guess after it.
TEST(EagleHeadTest, GuessesAfterPagesOfRequestsThatWereNotGuessed) {
  Eagled s("tiny-llama", wide_head("tiny-llama", 320));
  s.agree();
  BatchingEngine engine(s.target(), s.pool(), std::nullopt, {.block_size = 4, .speculative = kEagle}, &s.head());
  Request unguessed = s.request(3, 60, 12);
  unguessed.sampling.repetition_penalty = 1.3;
  Eagled::run(engine, {unguessed});
  EXPECT_EQ(engine.stats().draft_tokens, 0);
  Request next = s.request(3, 60, 40);
  for (int turn = 0; turn < 4; ++turn) {
    const Spoken spoken = Eagled::run(engine, {next})[0];
    EXPECT_EQ(s.without({next})[0].tokens, spoken.tokens);
    next.prompt.insert(next.prompt.end(), spoken.tokens.begin(), spoken.tokens.end());
    next.prompt.push_back(7 + turn);
    next.max_tokens += 1;
  }
  EXPECT_GT(engine.stats().cached_prompt_tokens, 300);
  Eagled::expect_nearly_all_right(engine.stats());
  std::vector<Request> together(3, s.request(9, 33, 20));
  together[1].prompt.push_back(5);
  together[2].prompt.resize(30);
  expect_same(Eagled::run(engine, together), s.without(together));
  Eagled::expect_nearly_all_right(engine.stats());
}

TEST(EagleHeadTest, StopsPenaltiesAndLogprobsAreThoseWithoutIt) {
  Eagled s("tiny-llama", wide_head("tiny-llama", 320));
  s.agree();
  const Request plain = s.request(2, 18, 40);
  const std::vector<int64_t> whole = s.without({plain})[0].tokens;
  std::vector<Request> requests(8, plain);
  requests[0].stop_tokens = {whole[17]};
  requests[1].stop = {"<" + std::to_string(whole[20]) + "><" + std::to_string(whole[21]) + ">"};
  requests[2].sampling.repetition_penalty = 1.2;
  requests[3].sampling.frequency_penalty = 0.5;
  requests[4].min_tokens = 30;
  requests[4].stop_tokens = {whole[3], whole[35]};
  requests[5].logprobs = 3;
  requests[6].prompt_logprobs = 1;
  requests[7].sampling.logit_bias = {{5, 100.0f}};
  for (int64_t max_tokens = 0; max_tokens < 9; ++max_tokens) {
    requests.push_back(plain);
    requests.back().max_tokens = max_tokens;
  }
  const std::vector<Spoken> before = s.without(requests);
  expect_same(s.with({}, requests), before);
  Eagled::expect_nearly_all_right(s.stats());
  expect_same(s.with({.max_num_seqs = 3, .run_ahead = true}, requests), before);
  const std::vector<Spoken> fixed = s.without(requests, {.batch_invariant = true});
  expect_same(s.with({.batch_invariant = true}, requests), fixed);
  s.without({});  // switches it off
}

TEST(EagleHeadTest, RequestsThatLeaveDisturbNobody) {
  Eagled s("tiny-qwen3");
  const std::vector<Request> requests = s.various();
  const std::vector<Spoken> plain = s.without(requests);
  BatchingEngine engine(s.target(), s.pool(), std::nullopt,
                        {.max_num_seqs = 3, .block_size = 4, .num_blocks = 60, .speculative = kEagle}, &s.head());
  std::vector<Spoken> results(requests.size());
  std::vector<RequestId> ids;
  for (size_t i = 0; i < requests.size(); ++i) {
    ids.push_back(
        engine.submit(requests[i], [&results, i](RequestOutput output) { results[i].add(std::move(output)); }));
    engine.submit(requests[0], [](RequestOutput) { throw Error("gone"); });
  }
  for (int step = 0; engine.step(); ++step) {
    if (step == 1) engine.cancel(ids[1]);
    if (step == 4) engine.cancel(ids[4]);
  }
  EXPECT_EQ(engine.stats().blocks_used, 0);
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_EQ(results[i].ends, 1);
    const bool cancelled = results[i].finish == FinishReason::kCancelled;
    EXPECT_TRUE(!cancelled || i == 1 || i == 4);
    EXPECT_TRUE(std::equal(results[i].tokens.begin(), results[i].tokens.end(), plain[i].tokens.begin()));
    EXPECT_TRUE(cancelled || results[i].tokens == plain[i].tokens);
  }
}

TEST(EagleHeadTest, ABrokenHeadIsWrongAndNothingElse) {
  Eagled s("tiny-llama");
  const std::vector<Request> requests = s.various();
  const View norm = s.head().weight("norm.weight");
  std::fill_n(norm.ptr<float>(), norm.numel(), std::numeric_limits<float>::quiet_NaN());
  expect_same(s.with({}, requests), s.without(requests));
  EXPECT_GT(s.stats().draft_tokens, 0);
}

TEST(EagleHeadTest, TakesTheEmbeddingOfItsTarget) {
  Eagled s("tiny-llama", wide_head("tiny-llama", 160));
  s.head().lacks_embedding = true;
  share_embedding(s.head(), s.target());
  EXPECT_FALSE(s.head().lacks_embedding);
  const std::vector<Request> requests = s.various();
  expect_same(s.with({}, requests), s.without(requests));
  EXPECT_GT(s.stats().draft_tokens, 0);
  Eagled narrow("tiny-llama");
  narrow.head().lacks_embedding = true;
  EXPECT_THROW(share_embedding(narrow.head(), narrow.target()), Error);
}

TEST(EagleHeadTest, SaysWhyItCannotGuess) {
  BatchingOptions options;
  options.speculative = kEagle;
  auto reason = [&](const ModelSource& head, const char* target) -> std::string {
    try {
      check_draft_allows(head, resolve_model(target), options);
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  };
  const ModelSource llama = resolve_model("tiny-llama");
  EXPECT_EQ(reason(resolve_model("tiny-eagle3"), "tiny-llama"), "");
  EXPECT_EQ(
      reason(resolve_model("tiny-eagle3"), "tiny-qwen3"),
      "--speculative-config: the vocabulary of tiny-eagle3 has 320 tokens and that of tiny-qwen3 has 331; a draft "
      "model needs the same one.");
  EXPECT_EQ(
      reason(head_for(llama, {{"target_hidden_size", 40}}), "tiny-llama"),
      "--speculative-config: head guesses from hidden states of 40 elements, and those of tiny-llama have 64; take "
      "the head of this model.");
  EXPECT_EQ(reason(head_for(llama, {{"eagle_aux_hidden_state_layer_ids", nullptr}}), "tiny-llama"),
            "--speculative-config: head names no layers of its target, and tiny-llama has too few, 2, for the usual "
            "ones; add eagle_aux_hidden_state_layer_ids to the head's config.json.");
  EXPECT_EQ(reason(head_for(llama, {{"eagle_aux_hidden_state_layer_ids", {0, 1, 3}}}), "tiny-llama"),
            "--speculative-config: head wants hidden states of layer 3, and tiny-llama has 2 layers.");
  EXPECT_EQ(
      reason(llama, "tiny-llama"),
      "--speculative-config: tiny-llama is a language model, and the method \"eagle3\" needs an EAGLE-3 head; leave "
      "method out.");
  options.speculative.method = SpeculativeMethod::kDraftModel;
  EXPECT_EQ(reason(resolve_model("tiny-eagle3"), "tiny-llama"),
            "--speculative-config: tiny-eagle3 is an EAGLE-3 head; add \"method\": \"eagle3\".");
  EXPECT_EQ(wanted_hidden_states(resolve_model("eagle3-llama-3.1-8b"), resolve_model("llama-3.1-8b")),
            (std::vector<int64_t>{2, 16, 29}));
}

TEST(EagleHeadTest, RefusesTokensOutsideTheVocabulary) {
  Eagled s("tiny-llama");
  for (int64_t wrong : {int64_t{-1}, int64_t{320}, INT64_MAX, INT64_MIN}) {
    s.head().weight("d2t").ptr<int64_t>()[0] = wrong;
    try {
      s.with({}, {});
      FAIL() << wrong;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("outside the vocabulary"), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace fk
