#include "models/flow_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>

#include "core/error.h"
#include "core/json.h"
#include "models/in_quotes.h"

namespace fk {
namespace {

template <class Number>
std::optional<Number> number_in(std::string_view word) {
  if (word.starts_with('+')) word.remove_prefix(1);
  Number value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

template <size_t n>
bool is_one_of(std::string_view word, const std::string_view (&words)[n]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

Json plain(std::string_view word) {
  constexpr std::string_view kNull[] = {"", "~", "null", "Null", "NULL"};
  constexpr std::string_view kTrue[] = {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"};
  constexpr std::string_view kFalse[] = {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"};
  if (is_one_of(word, kNull)) return nullptr;
  if (std::optional<int64_t> integer = number_in<int64_t>(word)) return *integer;
  // "inf" and "nan" are words; YAML writes the numbers with a dot before them, and no entry needs them.
  if (std::optional<double> real = number_in<double>(word); real && std::isfinite(*real)) return *real;
  if (is_one_of(word, kTrue)) return true;
  if (is_one_of(word, kFalse)) return false;
  return std::string(word);
}

class LineReader {
 public:
  LineReader(std::string_view line, size_t number) : rest_(line), number_(number) {}

  FlowEntry entry() {
    FlowEntry result;
    result.name = key();
    expect('{');
    fields_until_brace(
        [&](std::string name, Json value) { result.fields.emplace_back(std::move(name), std::move(value)); });
    skip_spaces();
    if (!rest_.empty()) fail("nothing may follow the closing brace");
    return result;
  }

 private:
  static constexpr int kDeepest = 16;  // the catalog has three levels

  [[noreturn]] void fail(std::string_view why) const {
    throw Error("line {}: {}, before {}", number_, why, in_quotes(rest_.substr(0, 40)));
  }
  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }
  bool take(char c) {
    skip_spaces();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("there must be a ") + c);
  }
  std::string_view word_before(std::string_view ends) {
    skip_spaces();
    std::string_view word = rest_.substr(0, rest_.find_first_of(ends));
    rest_.remove_prefix(word.size());
    return word.substr(0, word.find_last_not_of(' ') + 1);
  }
  // A name and the colon after it, which a space or the end of the line follows.
  std::string key() {
    std::string name(word_before(":,{}[]\"#"));
    if (name.empty()) fail("a name is missing");
    expect(':');
    if (!rest_.empty() && rest_[0] != ' ') fail("a space must follow the colon");
    return name;
  }

  template <class Add>
  void fields_until_brace(Add add) {
    if (take('}')) return;
    do {
      std::string name = key();
      add(std::move(name), value());
    } while (take(','));
    expect('}');
  }

  Json value() {
    if (++depth_ > kDeepest) fail("it is nested too deeply");
    Json result;
    if (take('{')) {
      result = Json::object();
      fields_until_brace([&](const std::string& name, Json value) {
        if (result.contains(name)) fail("a key appears twice");
        result[name] = std::move(value);
      });
    } else if (take('[')) {
      result = Json::array();
      if (!take(']')) {
        do result.push_back(value());
        while (take(','));
        expect(']');
      }
    } else if (take('"')) {
      const size_t end = rest_.find_first_of("\"\\");
      if (end == std::string_view::npos || rest_[end] == '\\') fail("a text has no end, or an escape");
      result = std::string(rest_.substr(0, end));
      rest_.remove_prefix(end + 1);
    } else {
      const std::string_view word = word_before(",{}[]\"");
      if (word.find(": ") != std::string_view::npos || word.find(" #") != std::string_view::npos ||
          (word.find_first_of("&*!|>'%@`#?-") == 0 && !number_in<double>(word)))
        fail("this word has a meaning in YAML that is not read here");
      result = plain(word);
    }
    --depth_;
    return result;
  }

  std::string_view rest_;
  size_t number_;
  int depth_ = 0;
};

}  // namespace

std::vector<FlowEntry> parse_flow_entries(std::string_view text) {
  std::vector<FlowEntry> result;
  for (size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.find_first_not_of(" \r") == std::string_view::npos || line.starts_with('#')) continue;
    result.push_back(LineReader(line, number).entry());
  }
  return result;
}

}  // namespace fk
