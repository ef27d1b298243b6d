// Texts of a diffusion language model: every step keeps as many tokens as it should, and nothing depends on chance but
// what is drawn. That the tokens are the right ones is tested in tests/golden/diffusion_alignment_test.cpp.
#include "engine/denoiser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/models/error_text.h"

namespace fk {
namespace {

TEST(Denoise, StepsKeepEqualNumbersOfTokens) {
  EXPECT_EQ(tokens_per_step(12, 4), (std::vector<int64_t>{3, 3, 3, 3}));
  EXPECT_EQ(tokens_per_step(13, 5), (std::vector<int64_t>{3, 3, 3, 2, 2}));
  EXPECT_EQ(tokens_per_step(2, 3), (std::vector<int64_t>{1, 1, 0}));
  EXPECT_THROW(remasking_from_name("sure"), Error);
}

class TinyLLaDA : public testing::Test {
 protected:
  TinyLLaDA()
      : pool_(2),
        model_(load_model(resolve_model("tiny-llada"), {.format = LoadFormat::kDummy, .dtype = DType::kF32}, pool_)),
        mask_(model_.config.facts.mask_id) {}

  ThreadPool pool_;
  Model model_;
  const int64_t mask_;
};

// Blocks from left to right; a token that is there stays.
TEST_F(TinyLLaDA, FillsOneBlockAfterTheOther) {
  Denoiser denoiser(model_, pool_);
  const std::vector<int64_t> prompt = {5, 17, 99};
  std::vector<std::vector<int64_t>> seen;
  auto tokens = denoiser.generate({prompt}, {.gen_length = 10, .block_length = 4, .steps = 6},
                                  [&](const Denoiser::Texts& texts) { seen.push_back(texts[0]); })[0];
  ASSERT_EQ(seen.size(), 6u);  // two for each block
  EXPECT_EQ(denoiser.passes(), 6);
  const std::vector<int64_t> left = {8, 6, 4, 2, 1, 0};
  for (size_t step = 0; step < seen.size(); ++step) {
    const std::vector<int64_t>& text = seen[step];
    ASSERT_EQ(text.size(), 13u);
    EXPECT_TRUE(std::equal(prompt.begin(), prompt.end(), text.begin()));
    EXPECT_EQ(std::count(text.begin(), text.end(), mask_), left[step]) << step;
    const auto block = static_cast<int64_t>(step / 2);  // what lies behind it is untouched
    for (size_t i = 3 + 4 * static_cast<size_t>(block + 1); i < text.size(); ++i) EXPECT_EQ(text[i], mask_) << step;
    for (size_t i = 0; step > 0 && i < text.size(); ++i)
      EXPECT_TRUE(seen[step - 1][i] == mask_ || text[i] == seen[step - 1][i]) << step;
  }
  EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), seen.back().begin() + 3));
}

TEST_F(TinyLLaDA, ChanceComesFromTheSeedAlone) {
  Denoiser denoiser(model_, pool_);
  auto text = [&](double temperature, Remasking remasking, uint64_t seed, const Denoiser::Texts& prompts) {
    return denoiser.generate(prompts, {.gen_length = 12,
                                       .block_length = 6,
                                       .steps = 6,
                                       .temperature = temperature,
                                       .remasking = remasking,
                                       .seed = seed})[0];
  };
  const std::vector<int64_t> prompt = {5, 17, 99};
  const auto greedy = text(0, Remasking::kLowConfidence, 1, {prompt});
  EXPECT_EQ(greedy, text(0, Remasking::kLowConfidence, 2, {prompt}));
  const auto hot = text(3, Remasking::kLowConfidence, 1, {prompt});
  EXPECT_EQ(hot, text(3, Remasking::kLowConfidence, 1, {prompt}));
  EXPECT_EQ(hot, text(3, Remasking::kLowConfidence, 1, {prompt, {7, 8}}));
  EXPECT_NE(hot, text(3, Remasking::kLowConfidence, 2, {prompt}));
  EXPECT_NE(hot, greedy);
  const auto random = text(0, Remasking::kRandom, 1, {prompt});
  EXPECT_EQ(random, text(0, Remasking::kRandom, 1, {prompt}));
  for (const auto& tokens : {greedy, hot, random}) EXPECT_EQ(std::count(tokens.begin(), tokens.end(), mask_), 0);
}

TEST(DenoiseSteps, FillEveryBlock) {
  int64_t filled = 0, first = 0;
  for (const DenoiseStep& step : denoise_steps({.gen_length = 13, .block_length = 5, .steps = 7})) {
    if (step.first != first) {
      EXPECT_EQ(filled, 5);
      filled = 0;
      first = step.first;
    }
    EXPECT_EQ(step.known, filled);
    EXPECT_EQ(step.length, first == 10 ? 3 : 5);
    filled += step.keep;
  }
  EXPECT_EQ(first, 10);
  EXPECT_EQ(filled, 3);
}

// Every token sees the whole text: changing the last one changes the logits of the first.
TEST_F(TinyLLaDA, TokensSeeWhatFollowsThem) {
  std::unique_ptr<Encoder> encoder = make_encoder(model_, pool_);
  auto first_logit = [&](int64_t last) {
    return get(encoder->forward({.texts = {{mask_, 3, last}}, .wanted = {{0}}}).last_hidden_state, 0, 0);
  };
  EXPECT_NE(first_logit(4), first_logit(5));
}

TEST_F(TinyLLaDA, RefusesWhatMakesNoText) {
  Denoiser denoiser(model_, pool_);
  auto refused = [&](const Denoiser::Texts& prompts, const DenoiseOptions& options) {
    return error_of([&] { denoiser.generate(prompts, options); });
  };
  expect_sentence(refused({{5, mask_}}, {}), {"mask token 311"});
  expect_sentence(refused({{5}}, {.gen_length = 512}), {"at most 512", "513"});
  expect_sentence(refused({{5}}, {.gen_length = 0}), {"at least one token"});
  expect_sentence(refused({{400}}, {.gen_length = 4}), {"400", "vocabulary"});
  Model causal = load_model(resolve_model("tiny-llama"), {.format = LoadFormat::kDummy}, pool_);
  expect_sentence(error_of([&] { Denoiser(causal, pool_); }), {"tiny-llama", "fastkernels generate"});
}

}  // namespace
}  // namespace fk
