#include "compiler/codegen/element_text.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace fk {
namespace {

bool is_word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The word that begins at `at`; empty: none does.
std::string_view word_at(std::string_view text, size_t at) {
  if (!is_word_char(text[at]) || (at > 0 && (is_word_char(text[at - 1]) || text[at - 1] == '.'))) return {};
  size_t end = at;
  while (end < text.size() && is_word_char(text[end])) ++end;
  return text.substr(at, end - at);
}

// Terms of a sum, without their signs.
std::vector<std::string_view> terms_of(std::string_view sum) {
  std::vector<std::string_view> terms;
  int depth = 0;
  size_t begin = 0;
  for (size_t at = 0; at < sum.size(); ++at) {
    depth += sum[at] == '(' || sum[at] == '[' ? 1 : sum[at] == ')' || sum[at] == ']' ? -1 : 0;
    std::string_view sign = sum.substr(at, 3);
    if (depth != 0 || (sign != " + " && sign != " - ")) continue;
    terms.push_back(sum.substr(begin, at - begin));
    begin = at + 3;
    // A term that is subtracted is as good a multiple, but i must be added.
    if (sign == " - " && word_at(sum, begin) == "i") return {};
  }
  terms.push_back(sum.substr(begin));
  if (terms[0].starts_with("-")) terms[0].remove_prefix(1);
  return terms;
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::vector<ElementText> elements_in(const std::string& text, const std::function<bool(std::string_view)>& is_array) {
  std::vector<ElementText> found;
  for (size_t at = 0; at < text.size(); ++at) {
    std::string_view word = word_at(text, at);
    if (word.empty()) continue;
    size_t open = at + word.size();
    if (open >= text.size() || text[open] != '[' || !is_array(word)) {
      at = open - 1;
      continue;
    }
    int depth = 0;
    size_t close = open;
    for (; close < text.size(); ++close) {
      depth += text[close] == '[' ? 1 : text[close] == ']' ? -1 : 0;
      if (depth == 0) break;
    }
    found.push_back({at, close + 1, std::string(word), text.substr(open + 1, close - open - 1)});
    at = close;
  }
  return found;
}

bool has_word(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1))
    if (word_at(text, at) == word) return true;
  return false;
}

std::string with_words(const std::string& text, const std::function<std::string(std::string_view)>& replacement) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    std::string_view word = word_at(text, at);
    if (word.empty()) {
      result += text[at++];
      continue;
    }
    std::string other = replacement(word);
    result += other.empty() ? std::string(word) : other;
    at += word.size();
  }
  return result;
}

IndexOfI index_of_i(const std::string& index) {
  constexpr int64_t kMost = 8;
  IndexOfI found{IndexOfI::Kind::kFixed, kMost};
  std::vector<std::string_view> terms = terms_of(index);
  if (terms.empty() || index.starts_with("-i")) return {};
  for (std::string_view term : terms) {
    if (term == "i") {
      if (found.kind == IndexOfI::Kind::kPlusI) return {};
      found.kind = IndexOfI::Kind::kPlusI;
      continue;
    }
    if (has_word(term, "i")) return {};
    size_t product = term.rfind(" * ");
    std::string_view factor = product == term.npos ? term : term.substr(product + 3);
    int64_t multiple = 1;
    if (term.find('?') != term.npos) {
      multiple = 1;
    } else if (is_number(factor)) {
      const int64_t number = std::strtoll(std::string(factor).c_str(), nullptr, 10);
      multiple = number == 0 ? kMost : number & -number;
    } else if (product != term.npos && factor.find("_s") != factor.npos) {
      multiple = kMost;  // a stride
    }
    found.multiple = std::min(found.multiple, multiple);
  }
  return found;
}

}  // namespace fk
