// Mutated tokenizer files: each loads or throws Error, and what loads encodes and decodes without a crash.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "core/rng.h"
#include "models/tokenizer.h"

namespace fk {
namespace {

constexpr uint64_t kSeed = 20240601;
constexpr int kMutationsPerFamily = 6000;

class Random {
 public:
  Random(std::string_view name, uint64_t index) : stream_(stream_key(kSeed, name) + index) {}
  size_t below(size_t n) { return static_cast<size_t>(stream_.below(at_++, n)); }

  template <class Container>
  const auto& pick(const Container& from) {
    return from[below(std::size(from))];
  }

 private:
  Stream stream_;
  uint64_t at_ = 0;
};

std::pair<std::string, std::string> parts_of(const Json& merge) {
  if (merge.is_array()) return {merge[0], merge[1]};
  std::string text = merge;
  return {text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)};
}

void set_special_id(Json& node, const std::string& content, const Json& id) {
  if (node.is_object() && node.contains("special_tokens") && node["special_tokens"].contains(content))
    node["special_tokens"][content]["ids"] = Json::array({id});
  if (node.is_structured())
    for (Json& child : node) set_special_id(child, content, id);
}

// A file of the same shape with some 150 tokens, so that a mutation is likely to hit its structure.
Json shrink(Json file) {
  Json &model = file["model"], &added = file["added_tokens"];
  while (added.size() > 9) added.erase(added.size() - 1);
  std::set<std::string> kept;
  for (const auto& [token, id] : model["vocab"].items())
    if (token.size() == 1 || token == "Ġ" || token == "▁" || token.starts_with("<0xE")) kept.insert(token);
  for (const Json& token : added)
    if (model["vocab"].contains(token["content"].get<std::string>())) kept.insert(token["content"]);
  Json merges = Json::array();
  for (const Json& merge : model["merges"]) {
    auto [left, right] = parts_of(merge);
    if (merges.size() >= 25 || !kept.contains(left) || !kept.contains(right)) continue;
    kept.insert(left + right);
    merges.push_back(merge);
  }
  Json vocab = Json::object();
  for (const std::string& token : kept) vocab.push_back({token, vocab.size()});
  size_t next = vocab.size();
  for (Json& token : added) {
    std::string content = token["content"];
    token["id"] = vocab.contains(content) ? vocab[content] : Json(next++);
    set_special_id(file["post_processor"], content, token["id"]);
  }
  model["vocab"] = vocab;
  model["merges"] = merges;
  return file;
}

void collect(Json& value, std::vector<Json*>& out) {
  out.push_back(&value);
  if (value.is_structured())
    for (Json& child : value) collect(child, out);
}

// Mostly not vocabulary entries, which outnumber everything else.
Json& pick_node(Json& file, Random& random) {
  static const char* const kSections[] = {"added_tokens",   "normalizer", "pre_tokenizer",
                                          "post_processor", "decoder",    "model"};
  Json* root = &file;
  if (std::string key = random.pick(kSections); random.below(4) > 0 && file.is_object() && file.contains(key))
    root = &file[key];
  if (root->is_object() && root->contains("vocab") && random.below(2) == 0) return *root;
  std::vector<Json*> nodes;
  collect(*root, nodes);
  return *random.pick(nodes);
}

Json random_value(Random& random) {
  static const char* const kValues[] = {"null",
                                        "true",
                                        "false",
                                        "0",
                                        "-1",
                                        "1",
                                        "3",
                                        "700",
                                        "1048575",
                                        "1048576",
                                        "4294967296",
                                        "18446744073709551615",
                                        "1e300",
                                        "0.5",
                                        "[]",
                                        "{}",
                                        "\"\"",
                                        "\" \"",
                                        "\"a\"",
                                        "\"Ġ\"",
                                        "\"▁\"",
                                        "\"é\"",
                                        "\"\\u0000\"",
                                        "\"<0xE4>\"",
                                        "\"BPE\"",
                                        "\"Split\"",
                                        "\"ByteLevel\"",
                                        "\"Metaspace\"",
                                        "\"Sequence\"",
                                        "\"Replace\"",
                                        "\"Prepend\"",
                                        "\"NFC\"",
                                        "\"Fuse\"",
                                        "\"Strip\"",
                                        "\"ByteFallback\"",
                                        "\"TemplateProcessing\"",
                                        "\"Removed\"",
                                        "\"Contiguous\"",
                                        "\"MergedWithNext\"",
                                        "\"never\"",
                                        "\"always\"",
                                        "{\"type\":\"NFC\"}",
                                        "{\"type\":\"Fuse\"}",
                                        "{\"String\":\"a\"}",
                                        "{\"Regex\":\"(?:a*)*b\"}",
                                        "{\"Regex\":\"\\\\p{L}+|.\"}",
                                        "{\"Regex\":\"(?:a|a)*?b|(?!x)\"}",
                                        "[[\"a\",\"b\"]]",
                                        "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}",
                                        "{\"type\":\"Metaspace\",\"replacement\":\"▁\"}",
                                        "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"  \"}",
                                        "{\"type\":\"Strip\",\"content\":\" \",\"start\":2,\"stop\":2}"};
  return Json::parse(random.pick(kValues));
}

void mutate_structure(Json& file, Random& random) {
  Json& node = pick_node(file, random);
  switch (random.below(6)) {
    case 0:
      node = random_value(random);
      break;
    case 1:
      node = Json(pick_node(file, random));
      break;
    case 2: {
      Json copy = pick_node(file, random);
      Json here = node;
      pick_node(file, random) = std::move(here);
      pick_node(file, random) = std::move(copy);
      break;
    }
    case 3:
      if (node.is_structured() && !node.empty()) {
        auto it = node.begin();
        std::advance(it, static_cast<std::ptrdiff_t>(random.below(node.size())));
        node.erase(it);
      }
      break;
    case 4:
      if (node.is_array()) node.push_back(random_value(random));
      if (node.is_object()) node["type"] = random_value(random);
      if (node.is_string()) node = node.get<std::string>() + "(a|[b-e]{1,3})*+?\\s"[random.below(19)];
      if (node.is_boolean()) node = !node.get<bool>();
      if (node.is_number()) node = random.below(2000);
      break;
    default:
      node = Json{{"type", "Sequence"},
                  {"normalizers", {node}},
                  {"pretokenizers", {node}},
                  {"decoders", {node}},
                  {"processors", {node}}};
  }
}

void mutate_text(std::string& text, Random& random) {
  static const char* const kTokens[] = {
      "null",    "true",    "-1",  "1e9",       "{}", "[]",       "\"\"",
      "\\ud800", "\\u0000", "(?<", "{1,99999}", "*",  "\\\\p{L}", "99999999999999999999",
      ",",       ":",       "\"",  "]",         "}",  "Ġ",        "▁",
      "\xff",    "(?i:"};
  if (text.empty()) return;
  size_t at = random.below(text.size()), other = random.below(text.size()), size = 1 + random.below(12);
  switch (random.below(7)) {
    case 0:
      text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
      break;
    case 1:
      text[at] = static_cast<char>(random.below(256));
      break;
    case 2:
      text.erase(at, size);
      break;
    case 3:
      text.insert(at, std::string(text.substr(other, size)));
      break;
    case 4:
      text.insert(at, random.pick(kTokens));
      break;
    case 5:
      text.replace(at, size, text.substr(other, size));
      break;
    default:
      if (random.below(20) == 0) text.resize(at);
  }
}

void use(const Tokenizer& tokenizer, Random& random) {
  const std::string text = "<s> Hello, wörld's 123  tests!\n\n<think>ab 日本 \xF0\x9F\x98\x80\xE2\x82 e\xCC\x81 </s>\t";
  try {
    auto ids = tokenizer.encode(text, true);
    for (int i = 0; i < 8; ++i) ids.push_back(static_cast<int32_t>(random.below(200)) - 5);
    ids.push_back(INT32_MAX);
    StreamDecoder stream(tokenizer, true);
    std::string streamed;
    for (int32_t id : ids) streamed += stream.step(id);
    streamed += stream.finish();
    EXPECT_EQ(streamed, tokenizer.decode(ids, true));
    tokenizer.decode(ids, false);
  } catch (const Error&) {
  }
}

class TokenizerFuzz : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerFuzz, MutationsLoadOrAreRefused) {
  const Json original =
      shrink(parse_json_file(FK_SOURCE_DIR "/tests/models/data/tokenizers/" + std::string(GetParam()) + ".json"));
  EXPECT_FALSE(Tokenizer::from_json(original.dump(), "shrunk").encode("Hello", true).empty());
  int loaded = 0;
  for (int i = 0; i < kMutationsPerFamily; ++i) {
    Random random(GetParam(), static_cast<uint64_t>(i));
    std::string text;
    if (random.below(3) > 0) {
      Json file = original;
      for (size_t n = 1 + random.below(3); n > 0; --n) mutate_structure(file, random);
      text = file.dump();
    } else {
      text = original.dump();
      for (size_t n = 1 + random.below(3); n > 0; --n) mutate_text(text, random);
    }
    SCOPED_TRACE(i);
    try {
      auto tokenizer = Tokenizer::from_json(text, "mutated");
      ++loaded;
      use(tokenizer, random);
    } catch (const Error& e) {
      EXPECT_FALSE(std::string_view(e.what()).empty());
    }
  }
  // Mutations that are all refused at once, or all harmless, would test nothing.
  EXPECT_GT(loaded, kMutationsPerFamily / 10);
  EXPECT_LT(loaded, kMutationsPerFamily * 9 / 10);
}

INSTANTIATE_TEST_SUITE_P(Families, TokenizerFuzz, testing::Values("llama3", "qwen", "mistral", "gemma"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace fk
