#include "models/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "models/jinja/python_text.h"
#include "models/jinja/value.h"
#include "models/unicode.h"

namespace fk::jinja {
namespace {

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || (c & 0x80) != 0; }
bool continues_name(char c) { return starts_name(c) || std::isdigit(static_cast<unsigned char>(c)); }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

class Lexer {
 public:
  Lexer(std::string_view source, int& line) : rest_(source), line_(line) {}

  std::vector<Token> run() {
    while (!rest_.empty()) {
      size_t at = next_tag();
      if (at == rest_.npos) {
        add(TokenKind::kText, std::string(rest_));
        break;
      }
      std::string_view before = rest_.substr(0, at);
      char kind = rest_[at + 1], sign = at + 2 < rest_.size() ? rest_[at + 2] : ' ';
      bool marked = sign == '-' || sign == '+';
      std::string text(before);
      if (sign == '-')
        text = strip(before, false, true);
      else if (sign != '+' && kind != '{')
        text = without_indentation(before);
      if (!text.empty()) add(TokenKind::kText, text);
      take(at + 2 + (marked ? 1 : 0));
      if (kind == '#')
        comment();
      else
        tag(kind == '%');
    }
    tokens_.push_back({TokenKind::kEnd, "", line_});
    return std::move(tokens_);
  }

 private:
  size_t next_tag() const {
    for (size_t at = rest_.find('{'); at != rest_.npos; at = rest_.find('{', at + 1))
      if (at + 1 < rest_.size() && (rest_[at + 1] == '%' || rest_[at + 1] == '{' || rest_[at + 1] == '#')) return at;
    return rest_.npos;
  }

  // The white space between the start of a line and a tag goes.
  std::string without_indentation(std::string_view text) const {
    size_t start = text.rfind('\n') + 1;  // 0 where there is none
    if (start == 0 && !line_starting_) return std::string(text);
    std::string_view last = text.substr(start);
    return strip(last, true, true).empty() ? std::string(text.substr(0, start)) : std::string(text);
  }

  void take(size_t bytes) {
    line_ += static_cast<int>(std::count(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(bytes), '\n'));
    line_starting_ = bytes > 0 && rest_[bytes - 1] == '\n';
    rest_.remove_prefix(bytes);
  }

  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  // After the end of a tag, whose own bytes are taken: what its mark or trim_blocks removes.
  void trim_after(char mark, bool is_variable) {
    size_t more = 0;
    if (mark == '-')
      more = rest_.size() - strip(rest_, true, false).size();
    else if (mark != '+' && !is_variable && rest_.starts_with('\n'))
      more = 1;
    if (more > 0) take(more);
  }

  void comment() {
    size_t end = rest_.find("#}");
    if (end == rest_.npos) throw Fault("a comment has no end: \"#}\" is missing");
    char mark = end > 0 ? rest_[end - 1] : ' ';
    take(end + 2);
    trim_after(mark, false);
  }

  void tag(bool is_block) {
    if (is_block && raw()) return;
    add(is_block ? TokenKind::kBeginBlock : TokenKind::kBeginVariable, "");
    std::string brackets;
    std::string_view end = is_block ? "%}" : "}}";
    while (true) {
      size_t blank = 0;
      while (blank < rest_.size() && std::isspace(static_cast<unsigned char>(rest_[blank]))) ++blank;
      take(blank);
      if (rest_.empty()) throw Fault(fmt::format("a tag has no end: \"{}\" is missing", end));
      char mark = rest_[0] == '-' || (rest_[0] == '+' && is_block) ? rest_[0] : ' ';
      if (brackets.empty() && rest_.substr(mark == ' ' ? 0 : 1).starts_with(end)) {
        take(end.size() + (mark == ' ' ? 0 : 1));
        add(is_block ? TokenKind::kEndBlock : TokenKind::kEndVariable, "");
        return trim_after(mark, !is_block);
      }
      expression_token(brackets);
    }
  }

  // {% raw %} ... {% endraw %}; false where the tag is another one.
  bool raw() {
    size_t at = skip_word(0, "raw");
    if (at == rest_.npos) return false;
    char mark = rest_[at] == '-' || rest_[at] == '+' ? rest_[at] : ' ';
    if (!rest_.substr(at + (mark == ' ' ? 0 : 1)).starts_with("%}")) return false;
    take(at + (mark == ' ' ? 2 : 3));
    trim_after(mark, false);
    for (size_t open = rest_.find("{%"); open != rest_.npos; open = rest_.find("{%", open + 1)) {
      size_t inside = open + 2;
      char sign = inside < rest_.size() ? rest_[inside] : ' ';
      size_t end = skip_word(inside + (sign == '-' || sign == '+' ? 1 : 0), "endraw");
      if (end == rest_.npos) continue;
      char last = rest_[end];
      if (!rest_.substr(end + (last == '-' || last == '+' ? 1 : 0)).starts_with("%}")) continue;
      std::string_view before = rest_.substr(0, open);
      std::string text = sign == '-'   ? strip(before, false, true)
                         : sign == '+' ? std::string(before)
                                       : without_indentation(before);
      if (!text.empty()) add(TokenKind::kText, text);
      take(end + (last == '-' || last == '+' ? 3 : 2));
      trim_after(last, false);
      return true;
    }
    throw Fault("a raw block has no end: {% endraw %} is missing");
  }

  // The place after white space, `word` and white space; npos where something else is there.
  size_t skip_word(size_t at, std::string_view word) const {
    auto blanks = [&] {
      while (at < rest_.size() && std::isspace(static_cast<unsigned char>(rest_[at]))) ++at;
    };
    blanks();
    if (!rest_.substr(std::min(at, rest_.size())).starts_with(word)) return rest_.npos;
    at += word.size();
    blanks();
    return at < rest_.size() ? at : rest_.npos;
  }

  void expression_token(std::string& brackets) {
    char c = rest_[0];
    if (is_digit(c)) return number();
    if (starts_name(c)) {
      size_t size = 1;
      while (size < rest_.size() && continues_name(rest_[size])) ++size;
      add(TokenKind::kName, std::string(rest_.substr(0, size)));
      return take(size);
    }
    if (c == '"' || c == '\'') return string(c);
    for (std::string_view two : {"//", "**", "==", "!=", ">=", "<="})
      if (rest_.starts_with(two)) {
        add(TokenKind::kOperator, std::string(two));
        return take(2);
      }
    if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos)
      throw Fault(fmt::format("'{}' is not expected here", rest_.substr(0, unicode::decode_at(rest_, 0).size)));
    if (c == '(' || c == '[' || c == '{') brackets += c;
    if (c == ')' || c == ']' || c == '}') {
      char opening = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (brackets.empty() || brackets.back() != opening) throw Fault(fmt::format("'{}' closes nothing", c));
      brackets.pop_back();
    }
    add(TokenKind::kOperator, std::string(1, c));
    take(1);
  }

  void number() {
    size_t size = 1;
    auto digits = [&] {
      while (size < rest_.size() && (is_digit(rest_[size]) || (rest_[size] == '_' && is_digit(rest_[size - 1]))))
        ++size;
    };
    digits();
    bool is_float = false;
    if (size + 1 < rest_.size() && rest_[size] == '.' && is_digit(rest_[size + 1])) {
      is_float = true;
      ++size;
      digits();
    }
    if (size < rest_.size() && (rest_[size] == 'e' || rest_[size] == 'E')) {
      size_t exponent = size + 1;
      if (exponent < rest_.size() && (rest_[exponent] == '+' || rest_[exponent] == '-')) ++exponent;
      if (exponent < rest_.size() && is_digit(rest_[exponent])) {
        is_float = true;
        size = exponent + 1;
        digits();
      }
    }
    std::string text(rest_.substr(0, size));
    std::erase(text, '_');
    add(is_float ? TokenKind::kFloat : TokenKind::kInteger, std::move(text));
    take(size);
  }

  void string(char quote) {
    std::string value;
    for (size_t at = 1; at < rest_.size();) {
      if (rest_[at] == quote) {
        add(TokenKind::kString, std::move(value));
        return take(at + 1);
      }
      if (rest_[at] == '\\' && at + 1 < rest_.size())
        at = escape(at + 1, value);
      else
        value += rest_[at++];
    }
    throw Fault("a string has no end");
  }

  // The escape whose character after the backslash is at `at`; returns the place after it.
  size_t escape(size_t at, std::string& value) {
    constexpr std::string_view kSimple = "abfnrtv\\'\"", kMeant = "\a\b\f\n\r\t\v\\'\"";
    char c = rest_[at];
    if (c == '\n') return at + 1;
    if (size_t i = kSimple.find(c); i != kSimple.npos) {
      value += kMeant[i];
      return at + 1;
    }
    int base = 16;
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0, first = at + 1;
    if (c >= '0' && c <= '7') {
      base = 8;
      first = at;
      for (digits = 1;
           digits < 3 && at + digits < rest_.size() && rest_[at + digits] >= '0' && rest_[at + digits] <= '7';)
        ++digits;
    }
    if (digits == 0) {  // no escape: both characters stay
      value += {'\\', c};
      return at + 1;
    }
    uint32_t code = 0;
    for (size_t i = 0; i < digits; ++i) {
      char d = first + i < rest_.size() ? static_cast<char>(std::tolower(static_cast<unsigned char>(rest_[first + i])))
                                        : ' ';
      if (!std::isxdigit(static_cast<unsigned char>(d))) throw Fault("an escape in a string is too short");
      code = code * static_cast<uint32_t>(base) + static_cast<uint32_t>(d <= '9' ? d - '0' : d - 'a' + 10);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) throw Fault("an escape in a string is no character");
    unicode::append_utf8(value, code);
    return first + digits;
  }

  std::string_view rest_;
  int& line_;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, int& line) {
  line = 1;
  return Lexer(source, line).run();
}

}  // namespace fk::jinja
