// Broken and unsupported tokenizer files: one sentence that names what is wrong, never a crash.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "core/error.h"
#include "core/json.h"
#include "models/split_pattern.h"
#include "models/tokenizer.h"
#include "tests/models/tokenizer_files.h"

namespace fk {
namespace {

std::string message_of(std::string_view text) {
  try {
    Tokenizer::from_json(text, "tokenizer.json");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

void expect_message(const std::string& message, std::string_view fragment) {
  EXPECT_NE(message.find(fragment), std::string::npos) << "message: '" << message << "'\nlacks: '" << fragment << "'";
  EXPECT_TRUE(message.ends_with('.')) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

struct Patch {
  const char* base;
  const char* patch;  // RFC 7386
  const char* fragment;
};
void PrintTo(const Patch& p, std::ostream* os) { *os << p.base << " with " << p.patch; }

class BrokenTokenizer : public testing::TestWithParam<Patch> {};

TEST_P(BrokenTokenizer, IsRefusedWithASentence) {
  Json file = parse_json_file(kTokenizerFiles + GetParam().base + ".json");
  file.merge_patch(parse_json(GetParam().patch, "patch"));
  expect_message(message_of(file.dump()), GetParam().fragment);
}

const Patch kPatches[] = {
    {"qwen", R"({"model": null})", "has no 'model'"},
    {"qwen", R"({"model": 3})", "tokenizer.json.model must be an object"},
    {"qwen", R"({"model": {"type": "Unigram"}})", "tokenizer.json.model is the model 'Unigram'"},
    {"qwen", R"({"model": {"type": "WordPiece"}})", "'WordPiece', which is not supported; supported are BPE"},
    {"qwen", R"({"model": {"type": 1}})", "model.type must be a string"},
    {"qwen", R"({"model": {"vocab": null}})", "model has no 'vocab'"},
    {"qwen", R"({"model": {"vocab": [["a", 0.5]]}})", "model.vocab must be an object"},
    {"qwen", R"({"model": {"vocab": {"zz": "1"}}})", "is not an integer"},
    {"qwen", R"({"model": {"vocab": {"zz": 1.5}}})", "is not an integer"},
    {"qwen", R"({"model": {"vocab": {"zz": [1]}}})", "is not an integer"},
    {"qwen", R"({"model": {"vocab": {"zz": -1}}})", "'zz' the id -1"},
    {"qwen", R"({"model": {"vocab": {"zz": 1048576}}})", "ids run from 0 to 1048575"},
    {"qwen", R"({"model": {"vocab": {"zz": 18446744073709551615}}})", "is not an integer"},
    {"qwen", R"({"model": {"vocab": {"zz": 5}}})", "gives the id 5 to both"},
    {"qwen", R"({"model": {"vocab": {"a": null}}})", "needs the token 'a', which is not in the vocabulary"},
    {"qwen", R"({"model": {"merges": null}})", "model has no 'merges'"},
    {"qwen", R"({"model": {"merges": {}}})", "model.merges must be an array"},
    {"qwen", R"({"model": {"merges": ["a"]}})", "model.merges entry 0 is not a pair"},
    {"qwen", R"({"model": {"merges": ["a b c"]}})", "model.merges entry 0 is not a pair"},
    {"qwen", R"({"model": {"merges": ["Q Q"]}})", "merges[0] needs the token 'QQ'"},
    {"qwen", R"({"model": {"merges": [["a"]]}})", "entry 0 is not a pair"},
    {"qwen", R"({"model": {"merges": [["a", "b", "c"]]}})", "entry 0 is not a pair"},
    {"qwen", R"({"model": {"merges": [["a", 1]]}})", "entry 0 is not a pair"},
    {"qwen", R"({"model": {"merges": [["a", ["b"]]]}})", "entry 0 is not a pair"},
    {"qwen", R"({"model": {"merges": [1]}})", "entry 0 is not a pair"},
    {"qwen", R"({"model": {"dropout": 0.1}})", "model.dropout is not 0"},
    {"qwen", R"({"model": {"end_of_word_suffix": "</w>"}})", "model.end_of_word_suffix is set"},
    {"qwen", R"({"model": {"continuing_subword_prefix": "##"}})", "model.continuing_subword_prefix is set"},
    {"qwen", R"({"model": {"byte_fallback": "yes"}})", "model.byte_fallback must be true or false"},
    {"qwen", R"({"added_tokens": 1})", "added_tokens must be an array"},
    {"qwen", R"({"added_tokens": ["a"]})", "added_tokens[0] must be an object"},
    {"qwen", R"({"added_tokens": [{"id": 700}]})", "added_tokens[0] has no 'content'"},
    {"qwen", R"({"added_tokens": [{"id": -5, "content": "x"}]})", "added_tokens[0].id must be from 0"},
    {"qwen", R"({"added_tokens": [{"id": 7, "content": "xyz"}]})", "gives 'xyz' the id 7, which"},
    {"qwen", R"({"added_tokens": [{"id": 900, "content": "a"}]})", "gives 'a' a second id, 900"},
    {"qwen", R"({"added_tokens": [{"id": 900, "content": "xyz"}, {"id": 901, "content": "xyz"}]})", "a second id, 901"},
    {"qwen", R"({"added_tokens": [{"id": 900, "content": "x", "special": 1}]})", "special must be true or false"},
    {"qwen", R"({"normalizer": {"type": "BertNormalizer"}})", "normalizer is the normalizer 'BertNormalizer'"},
    {"qwen", R"({"normalizer": "NFC"})", "normalizer must be an object"},
    {"qwen", R"({"normalizer": {"type": null}})", "normalizer has no 'type'"},
    {"gemma", R"({"normalizer": {"pattern": {"String": ""}}})",
     "normalizer.pattern.String must be a string that is not"},
    {"gemma", R"({"normalizer": {"pattern": {"Regex": "a"}}})", "normalizer.pattern is a Regex"},
    {"gemma", R"({"normalizer": {"content": null}})", "normalizer has no 'content'"},
    {"qwen", R"({"pre_tokenizer": {"pretokenizers": [{"type": "Whitespace"}]}})",
     "pre_tokenizer.pretokenizers[0] is the pre-tokenizer 'Whitespace'"},
    {"qwen", R"({"pre_tokenizer": {"pretokenizers": null}})", "has no 'pretokenizers'"},
    {"gemma", R"({"pre_tokenizer": {"behavior": "isolated"}})", "behavior must be Removed, Isolated"},
    {"gemma", R"({"pre_tokenizer": {"pattern": {"String": null, "Regex": "(?<=a)b"}}})", "uses the group '(?<='"},
    {"mistral", R"({"pre_tokenizer": {"replacement": "ab"}})", "replacement must be one character"},
    {"mistral", R"({"pre_tokenizer": {"replacement": ""}})", "replacement must be one character"},
    {"mistral", R"({"pre_tokenizer": {"prepend_scheme": "often"}})", "prepend_scheme must be always, first or never"},
    {"mistral", R"({"post_processor": {"type": "BertProcessing"}})", "post_processor is the post-processor 'BertProc"},
    {"mistral", R"({"post_processor": {"special_tokens": null}})", "names '<s>', which special_tokens lacks"},
    {"mistral", R"({"post_processor": {"special_tokens": {"<s>": {"ids": [99999]}}}})", "adds the id 99999, which no"},
    {"mistral", R"({"post_processor": {"single": [{"Sequence": {"id": "B"}}]}})", "must be A"},
    {"mistral", R"({"post_processor": {"single": [{}]}})", "single[0] has no 'SpecialToken'"},
    {"mistral", R"({"decoder": {"type": "WordPiece"}})", "decoder is the decoder 'WordPiece'"},
    {"mistral", R"({"decoder": {"type": "Strip", "content": " ", "start": -1, "stop": 0}})", "start must be 0 or more"},
    {"mistral", R"({"decoder": {"type": "Strip", "content": "ab", "start": 1, "stop": 0}})", "must be one character"},
};

INSTANTIATE_TEST_SUITE_P(Patches, BrokenTokenizer, testing::ValuesIn(kPatches));

TEST(BrokenTokenizerText, IsRefusedWithASentence) {
  expect_message(message_of(""), "tokenizer.json is not valid JSON");
  expect_message(message_of("{"), "is not valid JSON");
  expect_message(message_of("{} x"), "is not valid JSON");
  expect_message(message_of("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 5\n"),
                 "tokenizer.json is a Git LFS pointer, not the tokenizer; run git lfs pull there");
  expect_message(message_of("null"), "tokenizer.json must be an object");
  expect_message(message_of("[]"), "must be an object");
  expect_message(message_of(R"({"model": {"vocab": {"a": 0, "a": 1}, "merges": []}})"), "holds the token 'a' twice");
  expect_message(message_of(R"({"model": {}, "model": {}})"), "the key 'model' appears twice");
  expect_message(message_of("{\"model\": \"\xff\"}"), "is not valid JSON");
  expect_message(message_of(R"({"model": "\ud800"})"), "is not valid JSON");
  expect_message(message_of(std::string(100000, '[')), "nested deeper than");
  std::string deep = R"({"model": )" + std::string(100000, '[') + std::string(100000, ']') + "}";
  expect_message(message_of(deep), "nested deeper than");
  EXPECT_THROW(Tokenizer::from_file("/does/not/exist/tokenizer.json"), Error);
}

TEST(BrokenTokenizerText, EmptyVocabularyIsATokenizerThatKnowsNothing) {
  auto tokenizer = Tokenizer::from_json(R"({"model": {"type": "BPE", "vocab": {}, "merges": []}})", "empty");
  EXPECT_TRUE(tokenizer.encode("abc", true).empty());
  EXPECT_EQ(tokenizer.vocab_size(), 0);
}

TEST(SplitPatternErrors, NameTheConstruct) {
  std::pair<const char*, const char*> cases[] = {
      {"(?<=a)b", "the group '(?<='"},
      {"(?<!a)b", "the group '(?<!'"},
      {"(?i)a", "the group '(?i)'"},
      {"(?P<n>a)", "the group '(?P<'"},
      {"a++*", "a quantifier of a"},
      {"a{2}?", "the quantifier {n}?"},
      {"\\b+", "a repeated word boundary"},
      {"a**", "a quantifier of a"},
      {"*a", "'*' with nothing to repeat"},
      {"(?=a)*", "a repeated lookahead"},
      {"^a", "the anchor '^'"},
      {"a$", "the anchor '$'"},
      {"\\Aa", "the escape '\\A'"},
      {"(a)\\1", "the escape '\\1'"},
      {"\\h+", "the escape '\\h'"},
      {"\\p{Han}", "the property '\\p{Han}'"},
      {"\\p{", "the property"},
      {"\\pL", "the property"},
      {"[a", "the unmatched bracket"},
      {"[]", "an empty class"},
      {"[a[b]]", "a class inside a class"},
      {"[a&&b]", "the intersection"},
      {"[z-a]", "a range without two ends"},
      {"[a-\\s]", "a range without"},
      {"(a", "the unmatched parenthesis '('"},
      {"a)", "the unmatched parenthesis ')'"},
      {"a\\", "a '\\' at its end"},
      {"a{3,1}", "a count out of order"},
      {"a{999999}", "a count out of order or above"},
      {"a{", "a '{' that starts no"},
      {"\\x4", "the escape '\\x'"},
      {"\\u12", "the escape '\\u'"},
      {"\\x{110000}", "the escape '\\x'"},
  };
  for (auto [pattern, fragment] : cases) {
    try {
      SplitPattern compiled(pattern);
      ADD_FAILURE() << pattern << " was accepted";
    } catch (const Error& e) {
      expect_message(e.what(), fragment);
    }
  }
  EXPECT_THROW(SplitPattern(std::string(100, '(') + std::string(100, ')')), Error);
  EXPECT_THROW(SplitPattern("(?:(?:ab{2}){9999}){9999}"), Error);
  SplitPattern("(?:(?:){99999}){99999}");
}

}  // namespace
}  // namespace fk
