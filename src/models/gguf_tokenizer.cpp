#include "models/gguf_tokenizer.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "core/error.h"
#include "models/in_quotes.h"
#include "models/tokenizer_file.h"

namespace fk {
namespace {

// How byte-level BPE splits text into words, by the file's name for it.
struct WordRule {
  std::string_view pre;
  const char* pattern;
  bool composes = false;       // text is brought to NFC first
  bool ignore_merges = false;  // a word that is a token is not merged from its parts
  bool adds_bos = false;       // where the file does not say
};
constexpr const char* kLlama3Words =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
    "\\s+(?!\\S)|\\s+";
constexpr const char* kQwen2Words =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
    "\\s+(?!\\S)|\\s+";
constexpr const char* kGpt2Words = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
constexpr WordRule kWordRules[] = {
    {.pre = "llama-bpe", .pattern = kLlama3Words, .ignore_merges = true, .adds_bos = true},
    {.pre = "qwen2", .pattern = kQwen2Words, .composes = true},
    {.pre = "gpt-2", .pattern = kGpt2Words},
};

enum TokenType : int64_t { kUnknownToken = 2, kControlToken = 3, kUserDefinedToken = 4 };

// What both kinds have: tokens, their types and the token that starts a text.
class GgufVocabulary {
 public:
  explicit GgufVocabulary(const GgufFile& file) : file_(file) {
    auto tokens = file.strings("tokenizer.ggml.tokens");
    if (!tokens || tokens->empty()) throw Error("{} holds no tokens, only ids can be given.", in_quotes(file.path()));
    tokens_ = std::move(*tokens);
    types_ = file.integers("tokenizer.ggml.token_type").value_or(std::vector<int64_t>(tokens_.size(), 1));
    if (types_.size() != tokens_.size())
      throw Error("{} is broken: it has {} tokens and {} types of them.", in_quotes(file.path()), tokens_.size(),
                  types_.size());
  }

  const std::vector<std::string_view>& tokens() const { return tokens_; }

  void fill(TokenizerFile& to) const {
    to.what = file_.path();
    to.vocab.emplace();
    for (size_t i = 0; i < tokens_.size(); ++i) to.vocab->emplace_back(tokens_[i], static_cast<int64_t>(i));
    Json added = Json::array();
    for (size_t i = 0; i < tokens_.size(); ++i) {
      bool control = types_[i] == kControlToken || types_[i] == kUnknownToken;
      if (!control && types_[i] != kUserDefinedToken) continue;
      added.push_back({{"id", i},
                       {"content", tokens_[i]},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", control}});
    }
    to.root["added_tokens"] = std::move(added);
  }

  Json starts_with_bos(bool otherwise) const {
    auto bos = file_.integer("tokenizer.ggml.bos_token_id");
    if (!file_.boolean("tokenizer.ggml.add_bos_token").value_or(otherwise) || !bos) return nullptr;
    if (*bos >= static_cast<int64_t>(tokens_.size()))
      throw Error("{} is broken: its bos_token_id {} is no token.", in_quotes(file_.path()), *bos);
    std::string token(tokens_[static_cast<size_t>(*bos)]);
    Json single = Json::array(
        {{{"SpecialToken", {{"id", token}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}});
    return {
        {"type", "TemplateProcessing"},
        {"single", single},
        {"pair", single},
        {"special_tokens", {{token, {{"id", token}, {"ids", Json::array({*bos})}, {"tokens", Json::array({token})}}}}}};
  }

 private:
  const GgufFile& file_;
  std::vector<std::string_view> tokens_;
  std::vector<int64_t> types_;
};

TokenizerFile byte_level(const GgufFile& file, const GgufVocabulary& vocabulary) {
  std::string pre = file.string("tokenizer.ggml.pre").value_or("default"), known;
  const WordRule* rule = nullptr;
  for (const WordRule& r : kWordRules) {
    if (r.pre == pre) rule = &r;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", r.pre);
  }
  if (rule == nullptr)
    throw Error("{} splits text by the rule {}; known are {}. Give token ids instead of text.", in_quotes(file.path()),
                in_quotes(pre), known);
  TokenizerFile result;
  vocabulary.fill(result);
  result.merges.emplace();
  for (std::string_view merge : file.strings("tokenizer.ggml.merges").value_or(std::vector<std::string_view>())) {
    size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos)
      throw Error("{} is broken: a merge is not a pair of tokens.", in_quotes(file.path()));
    result.merges->emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  Json bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  Json split{{"type", "Split"}, {"pattern", {{"Regex", rule->pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  Json& root = result.root;
  root["normalizer"] = rule->composes ? Json{{"type", "NFC"}} : Json(nullptr);
  root["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", Json::array({split, bytes})}};
  root["post_processor"] = vocabulary.starts_with_bos(rule->adds_bos);
  root["decoder"] = bytes;
  root["model"] = {{"type", "BPE"}, {"ignore_merges", rule->ignore_merges}, {"vocab", nullptr}, {"merges", nullptr}};
  return result;
}

// SentencePiece merges the pair whose token has the best score: every token is split into all pairs of tokens, and
// pairs are ranked by its score, as transformers does when it converts such a model.
std::vector<std::pair<std::string, std::string>> merges_by_score(const std::vector<std::string_view>& tokens,
                                                                 const std::vector<float>& scores) {
  std::unordered_map<std::string_view, size_t> ids;
  for (size_t i = 0; i < tokens.size(); ++i) ids.emplace(tokens[i], i);
  struct Merge {
    float score;
    size_t left, right;
  };
  std::vector<Merge> merges;
  for (size_t i = 0; i < tokens.size(); ++i) {
    size_t first = merges.size();
    for (size_t at = 1; at < tokens[i].size(); ++at) {
      auto left = ids.find(tokens[i].substr(0, at)), right = ids.find(tokens[i].substr(at));
      if (left != ids.end() && right != ids.end()) merges.push_back({scores[i], left->second, right->second});
    }
    std::sort(merges.begin() + static_cast<std::ptrdiff_t>(first), merges.end(),
              [](const Merge& a, const Merge& b) { return std::tie(a.left, a.right) < std::tie(b.left, b.right); });
  }
  std::stable_sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) { return a.score > b.score; });
  std::vector<std::pair<std::string, std::string>> result;
  for (const Merge& m : merges) result.emplace_back(tokens[m.left], tokens[m.right]);
  return result;
}

TokenizerFile sentence_piece(const GgufFile& file, const GgufVocabulary& vocabulary) {
  auto scores = file.reals("tokenizer.ggml.scores");
  if (!scores || scores->size() != vocabulary.tokens().size())
    throw Error("{} is broken: it has no score for every token.", in_quotes(file.path()));
  TokenizerFile result;
  vocabulary.fill(result);
  result.merges = merges_by_score(vocabulary.tokens(), *scores);
  bool prefix = file.boolean("tokenizer.ggml.add_space_prefix").value_or(true);
  Json decoders = Json::array({{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
                               {{"type", "ByteFallback"}},
                               {{"type", "Fuse"}}});
  if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  Json& root = result.root;
  // A space is put before the text even where it begins with one, which Metaspace does not do.
  Json normalizers = Json::array();
  if (prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", "\u2581"}});
  normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}});
  root["normalizer"] = {{"type", "Sequence"}, {"normalizers", normalizers}};
  root["post_processor"] = vocabulary.starts_with_bos(true);
  root["decoder"] = {{"type", "Sequence"}, {"decoders", decoders}};
  auto unknown = file.integer("tokenizer.ggml.unknown_token_id").value_or(0);
  Json unknown_token = unknown < static_cast<int64_t>(vocabulary.tokens().size())
                           ? Json(vocabulary.tokens()[static_cast<size_t>(unknown)])
                           : Json(nullptr);
  root["model"] = {{"type", "BPE"},          {"unk_token", unknown_token}, {"fuse_unk", true}, {"byte_fallback", true},
                   {"ignore_merges", false}, {"vocab", nullptr},           {"merges", nullptr}};
  return result;
}

}  // namespace

Tokenizer gguf_tokenizer(const GgufFile& file) {
  std::string model = file.string("tokenizer.ggml.model").value_or("");
  if (model != "gpt2" && model != "llama")
    throw Error("{} has a tokenizer of the kind {}; gpt2 and llama are known. Give token ids instead of text.",
                in_quotes(file.path()), in_quotes(model));
  GgufVocabulary vocabulary(file);
  return Tokenizer::from_parts(model == "gpt2" ? byte_level(file, vocabulary) : sentence_piece(file, vocabulary));
}

}  // namespace fk
