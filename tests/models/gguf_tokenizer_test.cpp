// Tokenizers inside GGUF files: small ones, and the vocabularies that llama.cpp's package tests itself with, where
// FASTKERNELS_GGUF_VOCABULARIES names their folder (models/ of the package llama-cpp-python's llama.cpp).
#include "models/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tests/models/error_text.h"
#include "tests/models/gguf_bytes.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

using Ids = std::vector<int32_t>;

Tokenizer tokenizer_in(const GgufBytes& file) {
  TempDirectory directory;
  return gguf_tokenizer(GgufFile::open(directory.write("x.gguf", file.bytes())));
}

TEST(GgufTokenizer, ByteLevelTokensAreMerged) {
  GgufBytes file("llama");
  file.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "llama-bpe");
  file.texts("tokenizer.ggml.tokens", {"a", "b", "ab", "\xc4\xa0",
                                       "\xc4\xa0"
                                       "ab",
                                       "<s>"});
  file.integers("tokenizer.ggml.token_type", {1, 1, 1, 1, 1, 3});
  file.texts("tokenizer.ggml.merges", {"a b", "\xc4\xa0 ab"}).integer("tokenizer.ggml.bos_token_id", 5);
  Tokenizer tokenizer = tokenizer_in(file);
  EXPECT_EQ(tokenizer.encode("ab ab<s>b", true), (Ids{5, 2, 4, 5, 1}));
  EXPECT_EQ(tokenizer.decode(Ids{5, 2, 4}, true), "ab ab");
}

TEST(GgufTokenizer, SentencePieceMergesByScore) {
  GgufBytes file("llama");
  file.text("tokenizer.ggml.model", "llama");
  file.texts("tokenizer.ggml.tokens", {"<unk>", "<s>", "<0x21>", "\u2581", "a", "b", "ab", "ba",
                                       "\u2581"
                                       "ab"});
  file.integers("tokenizer.ggml.token_type", {2, 3, 6, 1, 1, 1, 1, 1, 1});
  file.reals("tokenizer.ggml.scores", {0, 0, 0, -9, -9, -9, -1, -2, -3}).integer("tokenizer.ggml.bos_token_id", 1);
  Tokenizer tokenizer = tokenizer_in(file);
  EXPECT_EQ(tokenizer.encode("aba!", true), (Ids{1, 8, 4, 2}));
  EXPECT_EQ(tokenizer.decode(Ids{1, 8, 4, 2}, true), "aba!");
}

TEST(GgufTokenizer, WhatIsNotSupportedIsNamed) {
  auto refusal = [](const GgufBytes& file) { return error_of([&] { tokenizer_in(file); }); };
  expect_sentence(refusal(GgufBytes("llama").text("tokenizer.ggml.model", "no_vocab")), {"'no_vocab'", "token ids"});
  expect_sentence(refusal(GgufBytes("llama").text("tokenizer.ggml.model", "gpt2")), {"holds no tokens"});
  expect_sentence(refusal(GgufBytes("llama")
                              .text("tokenizer.ggml.model", "gpt2")
                              .text("tokenizer.ggml.pre", "odd")
                              .texts("tokenizer.ggml.tokens", {"a"})),
                  {"'odd'", "llama-bpe, qwen2, gpt-2"});
  expect_sentence(
      refusal(GgufBytes("llama").text("tokenizer.ggml.model", "llama").texts("tokenizer.ggml.tokens", {"a"})),
      {"no score for every token"});
}

class PackagedVocabulary : public testing::TestWithParam<const char*> {};

TEST_P(PackagedVocabulary, GivesTheExpectedIds) {
  const char* folder = std::getenv("FASTKERNELS_GGUF_VOCABULARIES");
  if (folder == nullptr) GTEST_SKIP() << "FASTKERNELS_GGUF_VOCABULARIES is not set";
  std::string path = std::string(folder) + "/ggml-vocab-" + GetParam() + ".gguf";
  auto text_of = [](const std::string& name) {
    std::ifstream file(name, std::ios::binary);
    EXPECT_TRUE(file.good()) << name;
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  std::string inputs = text_of(path + ".inp");
  std::istringstream outputs(text_of(path + ".out"));
  Tokenizer tokenizer = gguf_tokenizer(GgufFile::open(path));
  constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  size_t texts = 0;
  for (size_t begin = 0; begin < inputs.size(); ++texts) {
    size_t end = std::min(inputs.find(kSeparator, begin), inputs.size());
    std::string text = inputs.substr(begin, end - begin), line;
    ASSERT_TRUE(std::getline(outputs, line)) << texts;
    std::istringstream numbers(line);
    Ids expected(std::istream_iterator<int32_t>(numbers), {});
    EXPECT_EQ(tokenizer.encode(text, false), expected) << '"' << text << '"';
    begin = end + kSeparator.size();
  }
  EXPECT_GT(texts, 30u);
}

INSTANTIATE_TEST_SUITE_P(LlamaCpp, PackagedVocabulary, testing::Values("llama-bpe", "llama-spm", "qwen2", "gpt-2"),
                         [](const auto& p) {
                           std::string name = p.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace fk
