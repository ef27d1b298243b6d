#include "models/tokenizer.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "core/input_file.h"
#include "models/in_quotes.h"
#include "models/tokenizer_added.h"
#include "models/tokenizer_bpe.h"
#include "models/tokenizer_file.h"
#include "models/tokenizer_normalizer.h"
#include "models/tokenizer_template.h"
#include "models/tokenizer_words.h"
#include "models/unicode.h"

namespace fk {
namespace {

template <class Component>
Component read_component(const JsonNode& root, std::string_view key) {
  auto node = root.find(key);
  return node ? Component(*node) : Component();
}

// A cache of the ids of words in the same text. Words repeat often, so most are merged only once.
class WordCache {
 public:
  explicit WordCache(const BpeModel& bpe) : bpe_(bpe) {}

  void encode(std::string_view word, std::vector<int32_t>& out) {
    if (word.size() > kMaxWordBytes) return bpe_.encode(word, scratch_, out);
    auto [it, added] = ids_.try_emplace(std::string(word));
    if (added) bpe_.encode(word, scratch_, it->second);
    out.insert(out.end(), it->second.begin(), it->second.end());
  }

 private:
  static constexpr size_t kMaxWordBytes = 64;  // longer ones rarely repeat
  const BpeModel& bpe_;
  BpeModel::Scratch scratch_;
  std::unordered_map<std::string, std::vector<int32_t>> ids_;
};

}  // namespace

struct Tokenizer::Parts {
  BpeModel bpe;
  Normalizer normalizer;
  std::vector<AddedToken> added;
  AddedTokenFinder raw_finder, normalized_finder;
  WordSplitter splitter;
  SpecialTemplate special_template;
  std::vector<DecoderStep> decoder;
  std::vector<std::string_view> tokens;  // by id, added ones included; a null view where an id has no token
  std::vector<bool> special;             // by id
  std::unordered_map<std::string_view, int32_t> added_ids;

  Parts(const JsonNode& root, TokenizerFile& file);
  Parts(const Parts&) = delete;

  void index_added(const JsonNode& root);
  void encode_segment(std::string_view text, bool first, WordCache& cache, std::vector<int32_t>& out) const;
  // Null if decoding skips the id.
  std::string_view token_to_decode(int32_t id, bool skip_special_tokens) const;
};

Tokenizer::Parts::Parts(const JsonNode& root, TokenizerFile& file)
    : bpe(root.at("model"), file),
      normalizer(read_component<Normalizer>(root, "normalizer")),
      added(read_added_tokens(root, normalizer)),
      raw_finder(added, false),
      normalized_finder(added, true),
      splitter(read_component<WordSplitter>(root, "pre_tokenizer")),
      special_template(read_component<SpecialTemplate>(root, "post_processor")),
      decoder(read_decoder(root)),
      tokens(bpe.tokens()) {
  index_added(root);
  for (int32_t id : special_template.special_ids())
    if (static_cast<size_t>(id) >= tokens.size() || !tokens[static_cast<size_t>(id)].data())
      throw Error("{}.post_processor adds the id {}, which no token has.", root.path(), id);
}

void Tokenizer::Parts::index_added(const JsonNode& root) {
  for (const AddedToken& token : added) {
    auto at = static_cast<size_t>(token.id);
    if (at >= tokens.size()) tokens.resize(at + 1);
    if (tokens[at].data() && tokens[at] != token.content)
      throw Error("{}.added_tokens gives {} the id {}, which {} has.", root.path(), in_quotes(token.content), token.id,
                  in_quotes(tokens[at]));
    auto in_model = bpe.id(token.content);
    if (!added_ids.emplace(token.content, token.id).second || in_model.value_or(token.id) != token.id)
      throw Error("{}.added_tokens gives {} a second id, {}.", root.path(), in_quotes(token.content), token.id);
    tokens[at] = token.text;
  }
  special.resize(tokens.size());
  for (const AddedToken& token : added) special[static_cast<size_t>(token.id)] = token.special;
}

void Tokenizer::Parts::encode_segment(std::string_view text, bool first, WordCache& cache,
                                      std::vector<int32_t>& out) const {
  std::string normalized = normalizer.apply(text);
  require_text_fits(normalized.size());
  for (const auto& part : normalized_finder.split(normalized)) {
    if (part.id >= 0) {
      out.push_back(part.id);
      continue;
    }
    Words words = splitter.split(normalized.substr(part.begin, part.end - part.begin), first && part.begin == 0);
    for (const auto& range : words.ranges) cache.encode(words[range], out);
  }
}

std::string_view Tokenizer::Parts::token_to_decode(int32_t id, bool skip_special_tokens) const {
  bool known = id >= 0 && static_cast<size_t>(id) < tokens.size();
  if (!known || (skip_special_tokens && special[static_cast<size_t>(id)])) return {};
  return tokens[static_cast<size_t>(id)];
}

Tokenizer Tokenizer::from_file(const std::string& path) {
  return from_json(read_file(path, fmt::format("The tokenizer {}", path)), path);
}

Tokenizer Tokenizer::from_json(std::string_view text, std::string_view what) {
  return from_parts(read_tokenizer_file(text, what));
}

Tokenizer Tokenizer::from_parts(TokenizerFile file) {
  return Tokenizer(std::make_shared<const Parts>(JsonNode(file.root, file.what), file));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  require_text_fits(text.size());
  std::string valid = unicode::repair_utf8(text);
  std::vector<int32_t> ids;
  WordCache cache(parts_->bpe);
  for (const auto& part : parts_->raw_finder.split(valid)) {
    if (part.id >= 0)
      ids.push_back(part.id);
    else
      parts_->encode_segment(std::string_view(valid).substr(part.begin, part.end - part.begin), part.begin == 0, cache,
                             ids);
  }
  return parts_->special_template.apply(ids, add_special_tokens);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  Detokenizer detokenizer(parts_->decoder);
  for (int32_t id : ids)
    if (auto token = parts_->token_to_decode(id, skip_special_tokens); token.data()) detokenizer.push(token);
  detokenizer.finish();
  return detokenizer.take();
}

int64_t Tokenizer::vocab_size() const { return static_cast<int64_t>(parts_->tokens.size()); }

std::optional<int32_t> Tokenizer::token_id(std::string_view token) const {
  if (auto it = parts_->added_ids.find(token); it != parts_->added_ids.end()) return it->second;
  return parts_->bpe.id(token);
}

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens)
    : parts_(tokenizer.parts_), skip_special_tokens_(skip_special_tokens), detokenizer_(parts_->decoder) {}

std::string StreamDecoder::step(int32_t id) {
  if (auto token = parts_->token_to_decode(id, skip_special_tokens_); token.data()) detokenizer_.push(token);
  return detokenizer_.take();
}

std::string StreamDecoder::finish() {
  detokenizer_.finish();
  return detokenizer_.take();
}

}  // namespace fk
