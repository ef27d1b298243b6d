// The text of a request: whatever the tokens are, it is the whole text up to the first stop string, and no later token
// changes what was given out.
#include "engine/output.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/rng.h"
#include "engine/log_probabilities.h"
#include "engine/logit_edits.h"

namespace fk {
namespace {

// One token per byte 'a' to 'd', and tokens of two and three of them; a character of three bytes in single bytes.
Tokenizer letters() {
  return Tokenizer::from_json(R"({
    "added_tokens": [{"id": 9, "content": "<end>", "special": true}],
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "merges": [], "vocab":
      {"a": 0, "b": 1, "c": 2, "d": 3, "ab": 4, "bca": 5, "cd": 6, "â": 7, "Ĥ": 8, "<end>": 9, "¬": 10}}})",
                              "letters");
}

struct Seen {
  std::string text;
  FinishReason finish = FinishReason::kNone;
  std::string stop_reason;
  int64_t tokens = 0;
};

Seen run(const Tokenizer& tokenizer, const Request& request, const std::vector<int64_t>& tokens) {
  OutputText output(&tokenizer, request);
  Seen seen;
  for (int64_t token : tokens) {
    OutputText::Step step = output.add(token);
    seen.text += step.text;
    seen.finish = step.finish;
    seen.stop_reason = step.stop_reason;
    ++seen.tokens;
    if (step.finish != FinishReason::kNone) return seen;
  }
  return seen;
}

TEST(OutputText, EndsAtTheFirstStopStringOfTheWholeText) {
  const Tokenizer tokenizer = letters();
  const std::vector<std::vector<std::string>> stops = {{"ab"}, {"abc", "bc"}, {"bcab", "cabd", "aa"}, {"ddd", "ddc"},
                                                       {},     {"abcabcabc"}};
  for (uint64_t seed = 0; seed < 600; ++seed) {
    Stream random(seed);
    Request request;
    request.stop = stops[seed % stops.size()];
    request.max_tokens = 30;
    request.min_tokens = seed % 4 == 0 ? 5 : 0;
    std::vector<int64_t> tokens;
    for (uint64_t i = 0; i < 30; ++i) tokens.push_back(static_cast<int64_t>(random.below(i, 7)));

    // After every token: does the text so far hold a stop string that ends in this token's text?
    std::string whole, expected, reason;
    int64_t used = 0;
    size_t end = std::string::npos;
    for (; used < 30 && end == std::string::npos; ++used) {
      const size_t before = whole.size();
      const auto id = static_cast<int32_t>(tokens[static_cast<size_t>(used)]);
      whole += tokenizer.decode({&id, 1}, true);
      expected = whole;
      if (used + 1 < request.min_tokens) continue;
      for (size_t last = before + 1; last <= whole.size() && end == std::string::npos; ++last)
        for (const std::string& stop : request.stop)
          if (last >= stop.size() && whole.compare(last - stop.size(), stop.size(), stop) == 0 &&
              (end == std::string::npos || stop.size() > reason.size())) {
            end = last;
            reason = stop;
            expected = whole.substr(0, last - stop.size());
          }
    }
    Seen seen = run(tokenizer, request, tokens);
    EXPECT_EQ(seen.text, expected) << "seed " << seed;
    EXPECT_EQ(seen.tokens, used) << "seed " << seed;
    EXPECT_EQ(seen.stop_reason, reason) << "seed " << seed;
    EXPECT_EQ(seen.finish, end == std::string::npos ? FinishReason::kLength : FinishReason::kStop) << "seed " << seed;
  }
}

TEST(OutputText, HoldsBackOnlyWhatMayBeginAStopString) {
  const Tokenizer tokenizer = letters();
  Request request;
  request.stop = {"abc"};
  request.max_tokens = 10;
  OutputText output(&tokenizer, request);
  EXPECT_EQ(output.add(3).text, "d");
  EXPECT_EQ(output.add(0).text, "");
  EXPECT_EQ(output.add(1).text, "");
  EXPECT_EQ(output.add(0).text, "ab");  // "aba": only the last letter may still begin one
  EXPECT_EQ(output.finish(FinishReason::kCancelled).text, "a");
}

TEST(OutputText, NeverSplitsACharacter) {
  const Tokenizer tokenizer = letters();
  Request request;
  request.max_tokens = 5;
  OutputText output(&tokenizer, request);
  EXPECT_EQ(output.add(7).text, "");
  EXPECT_EQ(output.add(8).text, "");
  EXPECT_EQ(output.add(10).text, "\xe2\x82\xac");
  EXPECT_EQ(output.add(7).text, "");
  OutputText::Step last = output.add(8);  // an incomplete character at the end
  EXPECT_EQ(last.text, "\xef\xbf\xbd");
  EXPECT_EQ(last.finish, FinishReason::kLength);
}

TEST(OutputText, StopTokensEndItAfterMinTokens) {
  const Tokenizer tokenizer = letters();
  Request request;
  request.max_tokens = 10;
  request.stop_tokens = {9, 2};
  Seen seen = run(tokenizer, request, {0, 1, 2, 3});
  EXPECT_EQ(seen.text, "ab");
  EXPECT_EQ(seen.finish, FinishReason::kStop);
  EXPECT_EQ(seen.stop_reason, "2");
  request.min_tokens = 3;
  EXPECT_EQ(run(tokenizer, request, {0, 1, 2, 3, 9}).text, "abcd");
  request.ignore_eos = true;
  EXPECT_EQ(run(tokenizer, request, {0, 9, 2, 3}).text, "acd");
}

TEST(OutputText, WithoutATokenizerTokensAreNumbers) {
  Request request;
  request.max_tokens = 3;
  OutputText output(nullptr, request);
  EXPECT_EQ(output.add(7).text + output.add(12).text, "<7><12>");
}

TEST(LogProbabilities, AreTheSoftmaxAndTheBestAreInOrder) {
  const std::vector<float> logits = {1.5f, -2.0f, 3.0f, 3.0f, 0.25f};
  double sum = 0;
  for (float x : logits) sum += std::exp(static_cast<double>(x));
  DrawnLogprobs p = log_probabilities(logits, 4, 3);
  EXPECT_EQ(p.drawn.token, 4);
  EXPECT_NEAR(p.drawn.logprob, 0.25 - std::log(sum), 1e-6);
  ASSERT_EQ(p.top.size(), 3u);
  EXPECT_EQ(p.top[0].token, 2);
  EXPECT_EQ(p.top[1].token, 3);
  EXPECT_EQ(p.top[2].token, 0);
  EXPECT_NEAR(p.top[2].logprob, 1.5 - std::log(sum), 1e-6);
  EXPECT_EQ(log_probabilities(logits, 0, 99).top.size(), 5u);
  EXPECT_TRUE(log_probabilities(logits, 0, 0).top.empty());
}

TEST(LogitEdits, HoldEveryTokenOnce) {
  SamplingParams params;
  params.repetition_penalty = 1.2;
  params.logit_bias = {{3, 1.0f}, {8, -2.0f}, {3, 0.5f}};
  const std::vector<int64_t> prompt = {3, 5, 5}, masked = {8, 9};
  LogitEdits edits(params, prompt, masked);
  edits.drawn(5);
  edits.drawn(6);
  edits.drawn(5);
  std::vector<LogitEdit> entries(edits.entries().begin(), edits.entries().end());
  std::sort(entries.begin(), entries.end(), [](const LogitEdit& a, const LogitEdit& b) { return a.token < b.token; });
  ASSERT_EQ(entries.size(), 5u);
  EXPECT_EQ(entries[0].bias, 1.5f);
  EXPECT_TRUE(entries[0].in_prompt);
  EXPECT_EQ(entries[1].count, 2);
  EXPECT_FALSE(entries[2].in_prompt);
  EXPECT_TRUE(entries[3].masked && entries[4].masked);
  edits.unmask();
  EXPECT_FALSE(edits.entries()[1].masked);

  LogitEdits only_masks({}, prompt, masked);
  only_masks.drawn(4);
  EXPECT_EQ(only_masks.entries().size(), 2u);
  only_masks.unmask();
  EXPECT_TRUE(only_masks.empty());
}

}  // namespace
}  // namespace fk
