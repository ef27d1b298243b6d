// NgramIndex: guesses are those of a search through the whole sequence, however the tokens came.
#include "engine/ngram_index.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/error.h"
#include "core/rng.h"

namespace fk {
namespace {

std::vector<int64_t> guesses(const std::vector<int64_t>& tokens, const SpeculativeOptions& options, int64_t count) {
  NgramIndex index;
  std::vector<int64_t> drafts;
  index.guess(tokens, options, count, drafts);
  return drafts;
}

// Every place, and every length of the match there.
std::vector<int64_t> searched(const std::vector<int64_t>& tokens, const SpeculativeOptions& options, int64_t count) {
  const int64_t known = std::ssize(tokens);
  int64_t longest = 0, place = -1;
  for (int64_t end = known - 2; end >= 0; --end) {
    int64_t equal = 0;
    while (equal <= end && equal < options.prompt_lookup_max &&
           tokens[static_cast<size_t>(end - equal)] == tokens[static_cast<size_t>(known - 1 - equal)])
      ++equal;
    if (equal >= options.prompt_lookup_min && equal > longest) {
      longest = equal;
      place = end;
    }
  }
  std::vector<int64_t> all = tokens;
  for (int64_t i = 0; place >= 0 && i < count; ++i) all.push_back(all[static_cast<size_t>(place + 1 + i)]);
  return {all.begin() + known, all.end()};
}

TEST(NgramIndex, TakesTheLongestMatchAndOfEqualOnesTheNewest) {
  const SpeculativeOptions options{3, 3, 1};
  EXPECT_EQ(guesses({1, 2, 3, 9, 3, 8, 2, 3}, options, 2), (std::vector<int64_t>{9, 3})) << "2 3 before 3 alone";
  EXPECT_EQ(guesses({2, 3, 9, 2, 3, 8, 2, 3}, options, 2), (std::vector<int64_t>{8, 2}));
  EXPECT_EQ(guesses({1, 2, 3}, options, 2), (std::vector<int64_t>{}));
  EXPECT_EQ(guesses({4}, options, 2), (std::vector<int64_t>{}));
  EXPECT_EQ(guesses({4, 4}, options, 0), (std::vector<int64_t>{}));
  EXPECT_EQ(guesses({3, 9, 3}, {3, 3, 2}, 2), (std::vector<int64_t>{})) << "one token is not enough";
}

TEST(NgramIndex, AMatchThatEndsAtTheEndIsRepeated) {
  EXPECT_EQ(guesses({6, 1, 2, 1, 2}, {5, 2, 2}, 5), (std::vector<int64_t>{1, 2, 1, 2, 1}));
  EXPECT_EQ(guesses({5, 5}, {3, 4, 1}, 3), (std::vector<int64_t>{5, 5, 5}));
}

TEST(NgramIndex, GuessesWhatASearchThroughAllTokensFinds) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Stream random(seed, "ngrams");
    uint64_t at = 0;
    auto below = [&](uint64_t n) { return static_cast<int64_t>(random.below(at++, n)); };
    SpeculativeOptions options;
    options.prompt_lookup_min = 1 + below(3);
    options.prompt_lookup_max = options.prompt_lookup_min + below(4);
    const auto vocabulary = static_cast<uint64_t>(2 + below(40));
    NgramIndex index;
    std::vector<int64_t> tokens;
    // No more places than the index compares.
    for (int step = 0; tokens.size() < 33; ++step) {
      for (int64_t n = 1 + below(4); n > 0; --n) tokens.push_back(below(vocabulary) - 5);
      const int64_t count = below(6);
      std::vector<int64_t> drafts = {77};
      index.guess(tokens, options, count, drafts);
      std::vector<int64_t> expected = searched(tokens, options, count);
      expected.insert(expected.begin(), 77);
      ASSERT_EQ(drafts, expected) << "seed " << seed << ", " << tokens.size() << " tokens";
    }
  }
}

// Long sequences: whatever is guessed did follow a match.
TEST(NgramIndex, GuessesOfLongSequencesFollowAMatch) {
  Stream random(1, "long");
  NgramIndex index;
  std::vector<int64_t> tokens;
  const SpeculativeOptions options{4, 5, 2};
  int64_t found = 0;
  for (uint64_t i = 0; i < 20000; ++i) {
    tokens.push_back(static_cast<int64_t>(random.below(i, 300)));
    std::vector<int64_t> drafts;
    if (i % 3 > 0) index.guess(tokens, options, 1, drafts);
    if (drafts.empty()) continue;
    ++found;
    const std::vector<int64_t> last = {tokens[i - 1], tokens[i], drafts[0]};
    ASSERT_NE(std::search(tokens.begin(), tokens.end(), last.begin(), last.end()), tokens.end()) << i;
  }
  EXPECT_GT(found, 500);
}

TEST(TokensKept, AreThoseAfterRightGuesses) {
  using Ids = std::vector<int64_t>;
  EXPECT_EQ(tokens_kept(Ids{}, Ids{4}), 1u);
  EXPECT_EQ(tokens_kept(Ids{4, 5}, Ids{4, 5, 6}), 3u);
  EXPECT_EQ(tokens_kept(Ids{4, 5}, Ids{4, 7, 6}), 2u);
  EXPECT_EQ(tokens_kept(Ids{4, 5}, Ids{5, 5, 6}), 1u) << "right again after a wrong one does not count";
}

TEST(SpeculativeConfig, IsReadAsVllmHasIt) {
  auto read = [](const char* text) { return read_speculative_config(text).options; };
  SpeculativeOptions all =
      read(R"({"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 5, "prompt_lookup_min": 1})");
  EXPECT_EQ(all.num_speculative_tokens, 3);
  EXPECT_EQ(all.prompt_lookup_max, 5);
  EXPECT_EQ(all.prompt_lookup_min, 1);
  EXPECT_EQ(read("{}").num_speculative_tokens, 4);
  EXPECT_EQ(read(R"({"prompt_lookup_max": 6})").prompt_lookup_min, 6);
  EXPECT_EQ(read(R"({"prompt_lookup_min": 3})").prompt_lookup_max, 3);

  auto refused = [&](const char* text) -> std::string {
    try {
      read(text);
      return "";
    } catch (const UsageError& e) {
      return e.what();
    }
  };
  EXPECT_NE(refused("ngram").find("--speculative-config"), std::string::npos);
  EXPECT_NE(refused("[1]").find("object"), std::string::npos);
  EXPECT_EQ(refused(R"({"method": "eagle"})"),
            "--speculative-config: the methods are \"ngram\", \"draft_model\" and \"eagle3\", not \"eagle\".");
  EXPECT_NE(refused(R"({"method": 3})").find("3"), std::string::npos);
  EXPECT_NE(refused(R"({"temperature": 1})").find("no field \"temperature\""), std::string::npos);
  EXPECT_NE(refused(R"({"num_speculative_tokens": 0})").find("between 1 and 64"), std::string::npos);
  EXPECT_NE(refused(R"({"num_speculative_tokens": 65})").find("between 1 and 64"), std::string::npos);
  EXPECT_NE(refused(R"({"num_speculative_tokens": 1.5})").find("whole number"), std::string::npos);
  EXPECT_NE(refused(R"({"num_speculative_tokens": 18446744073709551615})").find("64"), std::string::npos);
  EXPECT_NE(refused(R"({"prompt_lookup_min": 0})").find("prompt_lookup"), std::string::npos);
  EXPECT_NE(refused(R"({"prompt_lookup_min": 5, "prompt_lookup_max": 2})").find("more than"), std::string::npos);

  // A model that guesses.
  const SpeculativeConfig draft = read_speculative_config(R"({"model": "tiny-llama", "num_speculative_tokens": 2})");
  EXPECT_EQ(draft.model, "tiny-llama");
  EXPECT_TRUE(draft.options.has_draft_model());
  EXPECT_EQ(draft.options.num_speculative_tokens, 2);
  EXPECT_TRUE(read(R"({"method": "draft_model", "model": "x"})").has_draft_model());
  EXPECT_FALSE(read(R"({"method": "ngram"})").has_draft_model());
  EXPECT_NE(refused(R"({"method": "draft_model"})").find("needs the field \"model\""), std::string::npos);
  const SpeculativeOptions eagle = read(R"({"method": "eagle3", "model": "x", "num_speculative_tokens": 3})");
  EXPECT_TRUE(eagle.has_draft_model() && eagle.has_head());
  EXPECT_FALSE(read(R"({"method": "draft_model", "model": "x"})").has_head());
  EXPECT_NE(refused(R"({"method": "eagle3"})").find("\"eagle3\" needs the field \"model\""), std::string::npos);
  EXPECT_NE(refused(R"({"method": "eagle3", "model": "x", "prompt_lookup_max": 2})").find("prompt_lookup_max"),
            std::string::npos);
  EXPECT_NE(refused(R"({"method": "ngram", "model": "x"})").find("has no model"), std::string::npos);
  EXPECT_NE(refused(R"({"model": "x", "prompt_lookup_min": 2})").find("prompt_lookup_min"), std::string::npos);
  EXPECT_NE(refused(R"({"model": "x", "prompt_lookup_max": 2})").find("prompt_lookup_max"), std::string::npos);
  for (const char* model : {"\"\"", "7", "null", "[\"x\"]"})
    EXPECT_NE(refused(fmt::format("{{\"model\": {}}}", model).c_str()).find("directory or a name"), std::string::npos);
  EXPECT_NE(refused(R"({"model": "x", "num_speculative_tokens": 65})").find("64"), std::string::npos);
}

}  // namespace
}  // namespace fk
