#include "models/tokenizer_added.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "models/tokenizer_bpe.h"
#include "models/unicode.h"

namespace fk {
namespace {

bool ends_with_word(std::string_view text) {
  return !text.empty() && unicode::is_word(unicode::decode_at(text, unicode::previous(text, text.size())).c);
}

bool starts_with_word(std::string_view text) {
  return !text.empty() && unicode::is_word(unicode::decode_at(text, 0).c);
}

// Where the white space that ends at `end` starts, but not before `from`.
size_t before_spaces(std::string_view text, size_t end, size_t from) {
  while (end > from) {
    size_t previous = unicode::previous(text, end);
    if (!unicode::is_space(unicode::decode_at(text, previous).c)) break;
    end = previous;
  }
  return std::max(end, from);
}

size_t behind_spaces(std::string_view text, size_t at) {
  while (at < text.size()) {
    auto d = unicode::decode_at(text, at);
    if (!unicode::is_space(d.c)) break;
    at += d.size;
  }
  return at;
}

}  // namespace

std::vector<AddedToken> read_added_tokens(const JsonNode& root, const Normalizer& normalizer) {
  std::vector<AddedToken> tokens;
  auto list = root.find("added_tokens");
  if (!list) return tokens;
  for (const JsonNode& node : list->items()) {
    AddedToken token;
    int64_t id = node.at("id").integer();
    if (id < 0 || id >= kMaxTokenIds) node.at("id").fail(fmt::format("from 0 to {}", kMaxTokenIds - 1));
    token.id = static_cast<int32_t>(id);
    token.content = node.at("content").string();
    token.special = node.boolean_or("special", false);
    token.normalized = node.boolean_or("normalized", !token.special);
    token.single_word = node.boolean_or("single_word", false);
    token.lstrip = node.boolean_or("lstrip", false);
    token.rstrip = node.boolean_or("rstrip", false);
    token.text = token.normalized ? normalizer.apply(token.content) : token.content;
    tokens.push_back(std::move(token));
  }
  return tokens;
}

AddedTokenFinder::AddedTokenFinder(const std::vector<AddedToken>& tokens, bool normalized) {
  for (const AddedToken& token : tokens)
    if (token.normalized == normalized && !token.text.empty()) tokens_.push_back(token);
  // Of tokens with one text, special ones come first, then the order of the file.
  std::ranges::stable_sort(tokens_, [](const AddedToken& a, const AddedToken& b) {
    return std::pair(std::string_view(a.text), !a.special) < std::pair(std::string_view(b.text), !b.special);
  });
  auto same_text = [](const AddedToken& a, const AddedToken& b) { return a.text == b.text; };
  tokens_.erase(std::unique(tokens_.begin(), tokens_.end(), same_text), tokens_.end());
  for (const AddedToken& token : tokens_) ++first_byte_[static_cast<unsigned char>(token.text[0]) + 1u];
  for (size_t b = 0; b < 256; ++b) first_byte_[b + 1] += first_byte_[b];
}

const AddedToken* AddedTokenFinder::longest_prefix(std::string_view text) const {
  auto first = static_cast<unsigned char>(text[0]);
  auto low = tokens_.begin() + first_byte_[first], high = tokens_.begin() + first_byte_[first + 1u];
  const AddedToken* longest = nullptr;
  // [low, high) are the tokens that start with the first `size` bytes of the text; the shortest sorts first.
  for (size_t size = 1; low != high; ++size) {
    if (low->text.size() == size) longest = &*low++;
    if (low == high || size == text.size()) break;
    auto byte_at = [&](const AddedToken& token) { return static_cast<unsigned char>(token.text[size]); };
    auto next = static_cast<unsigned char>(text[size]);
    low = std::ranges::lower_bound(low, high, next, {}, byte_at);
    high = std::ranges::upper_bound(low, high, next, {}, byte_at);
  }
  return longest;
}

std::vector<AddedTokenFinder::Part> AddedTokenFinder::split(std::string_view text) const {
  std::vector<Part> parts;
  size_t from = 0, spaces_end = 0;
  for (size_t at = 0; !tokens_.empty() && at < text.size();) {
    const AddedToken* found = longest_prefix(text.substr(at));
    if (!found) {
      ++at;
      continue;
    }
    const AddedToken& token = *found;
    size_t begin = at, end = at + token.text.size();
    at = end;
    if (token.single_word && (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) continue;
    if (token.lstrip) begin = before_spaces(text, begin, from);
    // White space is not scanned twice: tokens may themselves be white space.
    if (token.rstrip) end = spaces_end = end < spaces_end ? spaces_end : behind_spaces(text, end);
    if (begin > from) parts.push_back({from, begin, -1});
    parts.push_back({begin, end, token.id});
    from = end;
  }
  if (from < text.size()) parts.push_back({from, text.size(), -1});
  return parts;
}

}  // namespace fk
