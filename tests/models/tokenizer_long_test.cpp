// Long texts: work stays bounded whatever the text or the pattern is, and nothing recurses over the text.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "models/split_pattern.h"
#include "models/tokenizer.h"

namespace fk {
namespace {

std::string repeated(std::string_view unit, size_t bytes, std::string_view start = "") {
  std::string out(start);
  while (out.size() < bytes) out += unit;
  return out;
}

TEST(TokenizerLongText, ComesBackWhole) {
  constexpr size_t kBytes = 100'000;
  const std::string units[] = {" ", "\n",  "\t ", "a",  "ab ",          "7",        "!", "'", "的", "é", "😀",
                               "A", " \n", "<",   "<|", "\xE2\x96\x81", "a\xCC\x81"};
  for (const char* family : {"llama3", "mistral", "gemma"}) {
    auto tokenizer =
        Tokenizer::from_file(std::string(FK_SOURCE_DIR "/tests/models/data/tokenizers/") + family + ".json");
    for (const std::string& unit : units) {
      if (unit == "\xE2\x96\x81" && std::string_view(family) != "llama3") continue;  // these write it as a space
      std::string text = repeated(unit, kBytes, "x");
      // Not EXPECT_EQ, which would line up two long texts to show how they differ.
      EXPECT_TRUE(tokenizer.decode(tokenizer.encode(text, false), false) == text) << family << " '" << unit << "'";
    }
  }
}

TEST(TokenizerLongText, TokensOfWhiteSpaceThatStripAreFoundInLinearTime) {
  for (const char* side : {"lstrip", "rstrip"}) {
    std::string file = R"({"model": {"vocab": {}, "merges": []}, "added_tokens": [{"id": 0, "content": " ", ")" +
                       std::string(side) + R"(": true}]})";
    EXPECT_EQ(Tokenizer::from_json(file, side).encode(repeated(" ", 300'000), false).size(), 300'000u);
  }
}

TEST(TokenizerLongText, MarksWithoutABaseAreSorted) {
  auto tokenizer = Tokenizer::from_file(FK_SOURCE_DIR "/tests/models/data/tokenizers/qwen.json");
  std::string text = repeated("\xCC\x81\xCC\xA3", 300'000);  // U+0301 and U+0323, which sorts before it
  auto decoded = tokenizer.decode(tokenizer.encode(text, false), false);
  EXPECT_EQ(decoded.size(), text.size());
  EXPECT_TRUE(decoded.starts_with("\xCC\xA3\xCC\xA3"));
}

size_t count_matches(const SplitPattern& pattern, const std::string& text) {
  size_t count = 0;
  pattern.for_each_match(text, [&](size_t, size_t) { ++count; });
  return count;
}

TEST(SplitPatternLongText, RepeatsOfGroupsDoNotRecurse) {
  EXPECT_EQ(count_matches(SplitPattern("(?:a|b)*c"), repeated("ab", 1'000'000) + "c"), 1u);
  EXPECT_EQ(count_matches(SplitPattern("(?:ab?)+"), repeated("ab", 1'000'000)), 1u);
  EXPECT_EQ(count_matches(SplitPattern("a*?b"), repeated("a", 1'000'000) + "b"), 1u);
}

TEST(SplitPatternLongText, ExponentialPatternsAreRefusedInTime) {
  std::string text = repeated("a", 2000);
  for (const char* pattern :
       {"(?:a*)*b", "(?:a+)+b", "(?:a|a)*b", "(?:a|aa)+b", "(?:a?){60}(?:a){60}b", "(?=(?:a|a)*b)a"})
    EXPECT_THROW(count_matches(SplitPattern(pattern), text), Error) << pattern;
}

}  // namespace
}  // namespace fk
