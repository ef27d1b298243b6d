#include "graph/symbolic_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/error.h"

namespace fk {
namespace {

struct SymbolText {
  std::string_view name, words;
};
constexpr std::array<SymbolText, kNumSizeSymbols> kSymbolTexts = {{
    {"T", "new tokens of the batch"},
    {"S", "sequences of the batch"},
    {"Sd", "sequences that decode, one token each"},
    {"P", "pages a row of a block table lists"},
    {"B", "blocks of the per-token states"},
    {"page", "tokens a block holds"},
    {"slots", "slots of the per-sequence states"},
    {"L", "tokens whose logits are wanted"},
}};

std::optional<size_t> symbol_named(std::string_view name) {
  for (size_t i = 0; i < kNumSizeSymbols; ++i)
    if (kSymbolTexts[i].name == name) return i;
  return std::nullopt;
}

// One part of a sum: "12", "T" or "8 T".
bool add_term(SymbolicSize& size, std::string_view term, int64_t sign) {
  int64_t number = 1;
  const char* end = term.data() + term.size();
  auto [rest, error] = std::from_chars(term.data(), end, number);
  bool has_number = error == std::errc() && rest != term.data();
  if (has_number && rest == end) {
    size.constant += sign * number;
    return true;
  }
  std::string_view name = term;
  if (has_number) {
    if (*rest != ' ') return false;
    name = std::string_view(rest + 1, static_cast<size_t>(end - rest - 1));
  } else {
    number = 1;
  }
  std::optional<size_t> symbol = symbol_named(name);
  if (!symbol) return false;
  size.factors[*symbol] += sign * number;
  return true;
}

}  // namespace

std::string_view symbol_name(SizeSymbol symbol) { return kSymbolTexts[static_cast<size_t>(symbol)].name; }
std::string_view symbol_words(SizeSymbol symbol) { return kSymbolTexts[static_cast<size_t>(symbol)].words; }

int64_t SymbolicSize::at(const BatchSizes& sizes) const {
  int64_t value = constant;
  for (size_t i = 0; i < kNumSizeSymbols; ++i) value += factors[i] * sizes.of[i];
  return value;
}

std::string size_text(const SymbolicSize& size) {
  std::string text;
  auto add = [&](int64_t factor, std::string_view name) {
    if (factor == 0) return;
    bool negative = factor < 0;
    int64_t magnitude = negative ? -factor : factor;
    if (text.empty())
      text = negative ? "-" : "";
    else
      text += negative ? " - " : " + ";
    if (name.empty())
      text += fmt::format("{}", magnitude);
    else
      text += magnitude == 1 ? std::string(name) : fmt::format("{} {}", magnitude, name);
  };
  for (size_t i = 0; i < kNumSizeSymbols; ++i) add(size.factors[i], kSymbolTexts[i].name);
  add(size.constant, "");
  return text.empty() ? "0" : text;
}

SymbolicSize parse_size(std::string_view text) {
  SymbolicSize size;
  std::string_view rest = text;
  int64_t sign = 1;
  if (rest.starts_with('-')) {
    sign = -1;
    rest.remove_prefix(1);
  }
  for (;;) {
    size_t plus = rest.find(" + "), minus = rest.find(" - "), next = std::min(plus, minus);
    if (!add_term(size, rest.substr(0, next), sign))
      throw Error("'{}' is not a size such as 64, T, 8 T or S + 1.", text);
    if (next == std::string_view::npos) return size;
    sign = minus < plus ? -1 : 1;
    rest.remove_prefix(next + 3);
  }
}

}  // namespace fk
