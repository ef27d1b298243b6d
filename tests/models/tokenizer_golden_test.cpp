// The tokenizer against the `tokenizers` library: every text and id list of tools/golden/tokenizers_golden.py, exactly.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "models/split_pattern.h"
#include "models/tokenizer.h"
#include "tests/models/temp_directory.h"
#include "tests/models/tokenizer_files.h"

namespace fk {
namespace {

using Ids = std::vector<int32_t>;

std::string from_hex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i < hex.size(); i += 2) out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

bool is_whole_utf8(const std::string& text) {
  try {
    Json(text).dump();
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

// Streams the ids; each piece must be whole characters.
std::string stream(const Tokenizer& tokenizer, const Ids& ids, bool skip) {
  StreamDecoder decoder(tokenizer, skip);
  std::string out;
  for (int32_t id : ids) {
    std::string piece = decoder.step(id);
    EXPECT_TRUE(is_whole_utf8(piece));
    out += piece;
  }
  return out + decoder.finish();
}

// `expected` is [ids, ids with special tokens, decoded, decoded without special tokens, streamed by the library], where
// `true` stands for "as the one before".
void check_case(const Tokenizer& tokenizer, const std::string& text, const Json& expected) {
  SCOPED_TRACE(text);
  auto ids = expected[0].get<Ids>();
  auto full = expected[1] == true ? ids : expected[1].get<Ids>();
  auto kept = expected[2].get<std::string>();
  auto skipped = expected[3] == true ? kept : expected[3].get<std::string>();
  EXPECT_EQ(tokenizer.encode(text, false), ids);
  EXPECT_EQ(tokenizer.encode(text, true), full);
  EXPECT_EQ(tokenizer.decode(full, false), kept);
  EXPECT_EQ(tokenizer.decode(full, true), skipped);
  EXPECT_EQ(stream(tokenizer, full, false), kept);
  EXPECT_EQ(stream(tokenizer, full, true), skipped);
  // The library's stream has no end, so it holds back text that ends in U+FFFD; null means that it failed.
  std::string streamed = expected[4].is_string() ? expected[4].get<std::string>() : "";
  EXPECT_TRUE(skipped.starts_with(streamed));
}

class TokenizerFamily : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerFamily, AgreesWithTheLibrary) {
  auto tokenizer = Tokenizer::from_file(kTokenizerFiles + GetParam() + ".json");
  Json texts = parse_json_file(kTokenizerFiles + "texts.json");
  Json expected = parse_json_file(kTokenizerFiles + GetParam() + "_expected.json");
  EXPECT_EQ(tokenizer.vocab_size(), expected["vocab_size"].get<int64_t>());
  std::vector<std::string> all = texts["texts"].get<std::vector<std::string>>();
  for (const Json& hex : texts["bytes"]) all.push_back(from_hex(hex.get<std::string>()));
  ASSERT_EQ(all.size(), expected["texts"].size());
  for (size_t i = 0; i < all.size(); ++i) check_case(tokenizer, all[i], expected["texts"][i]);
}

TEST_P(TokenizerFamily, DecodesAnyIdsLikeTheLibrary) {
  auto tokenizer = Tokenizer::from_file(kTokenizerFiles + GetParam() + ".json");
  Json expected = parse_json_file(kTokenizerFiles + GetParam() + "_expected.json");
  for (const Json& row : expected["ids"]) {
    auto ids = row[0].get<Ids>();
    for (bool skip : {false, true}) {
      auto text = row[skip ? 2 : 1].get<std::string>();
      EXPECT_EQ(tokenizer.decode(ids, skip), text);
      EXPECT_EQ(stream(tokenizer, ids, skip), text);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, TokenizerFamily, testing::Values("llama3", "qwen", "mistral", "gemma"),
                         [](const auto& param) { return std::string(param.param); });

TEST(TokenizerVariants, AgreeWithTheLibrary) {
  for (const Json& variant : parse_json_file(kTokenizerFiles + "variants.json")) {
    SCOPED_TRACE(variant["name"].get<std::string>());
    Json file = parse_json_file(kTokenizerFiles + variant["base"].get<std::string>() + ".json");
    file.merge_patch(variant["patch"]);
    auto tokenizer = Tokenizer::from_json(file.dump(), "a variant");
    for (const Json& row : variant["cases"]) {
      Json expected = row;
      expected.erase(0);
      check_case(tokenizer, row[0].get<std::string>(), expected);
    }
  }
}

std::vector<std::string> matches(const SplitPattern& pattern, const std::string& text) {
  std::vector<std::string> found;
  pattern.for_each_match(text, [&](size_t begin, size_t end) {
    if (end > begin) found.push_back(text.substr(begin, end - begin));
  });
  return found;
}

// Returns how many patterns were refused, or given up as too slow; none may be where `all_supported`.
int compare_with_library(const std::string& path, bool all_supported) {
  Json golden = parse_json_file(path);
  int refused = 0;
  for (const Json& row : golden["patterns"]) {
    SCOPED_TRACE(row[0].get<std::string>());
    try {
      SplitPattern pattern(row[0].get<std::string>());
      for (size_t i = 0; i < row[1].size(); ++i) {
        auto text = golden["texts"][i].get<std::string>();
        EXPECT_EQ(matches(pattern, text), row[1][i].get<std::vector<std::string>>()) << text;
      }
    } catch (const Error& e) {
      EXPECT_FALSE(all_supported) << e.what();
      ++refused;
    }
  }
  return refused;
}

TEST(SplitPattern, FindsWhatTheLibraryFinds) { compare_with_library(kTokenizerFiles + "patterns.json", true); }

// Patterns and texts with today's seed, if Python has the library. FK_PYTHON names another Python.
TEST(SplitPattern, SlowFindsWhatTheLibraryFindsInRandomTexts) {
  const char* python = std::getenv("FK_PYTHON");
  std::string command = python == nullptr ? "python3" : python;
  if (std::system((command + " -c 'import tokenizers' 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "Python has no `tokenizers`";
  TempDirectory folder;
  std::string path = folder.path() + "/fuzz.json";
  const char* seed = std::getenv("FK_SEED");
  command += std::string(" " FK_SOURCE_DIR "/tools/golden/tokenizers_fuzz.py ") + path + " 400 60 ";
  ASSERT_EQ(std::system((command + (seed == nullptr ? "1" : seed)).c_str()), 0);
  EXPECT_LT(compare_with_library(path, false), 40);
}

}  // namespace
}  // namespace fk
