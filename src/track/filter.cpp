#include "track/filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "core/error.h"

namespace fk {
namespace {

enum class TokenKind : uint8_t { kWord, kQuoted, kNumber, kSign, kEnd };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  // without quotes
  size_t column = 0;
  char quote = 0;
};

[[noreturn]] void refuse(size_t column, const std::string& what) {
  throw UsageError("The filter cannot be read at column {}: {}", column, what);
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-' || c == '/' ||
         (static_cast<unsigned char>(c) & 0x80) != 0;
}

std::string shown(const Token& token) {
  if (token.kind == TokenKind::kEnd) return "the end";
  return token.kind == TokenKind::kQuoted ? fmt::format("the text {0}{1}{0}", token.quote, token.text)
                                          : fmt::format("`{}`", token.text);
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> all() {
    std::vector<Token> tokens;
    for (;;) {
      while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
      tokens.push_back(next());
      if (tokens.back().kind == TokenKind::kEnd) return tokens;
    }
  }

 private:
  Token next() {
    Token token;
    token.column = at_ + 1;
    if (at_ == text_.size()) return token;
    char c = text_[at_];
    if (c == '\'' || c == '"' || c == '`') return quoted(c);
    if (std::string_view("=!<>(),").find(c) != std::string_view::npos) {
      token.kind = TokenKind::kSign;
      token.text = c;
      ++at_;
      if (at_ < text_.size() && text_[at_] == '=' && (c == '!' || c == '<' || c == '>')) token.text += text_[at_++];
      if (token.text == "!") refuse(token.column, "`!` alone is no operator; write `!=`.");
      return token;
    }
    // A number may contain signs that a word may not.
    double number = 0;
    const char *begin = text_.data() + at_ + (c == '+' ? 1 : 0), *end = text_.data() + text_.size();
    auto [stop, status] = std::from_chars(begin, end, number);
    if (status == std::errc() && (stop == end || !word_character(*stop)) && std::isfinite(number)) {
      token.kind = TokenKind::kNumber;
      token.text = std::string(text_.data() + at_, stop);
      at_ = static_cast<size_t>(stop - text_.data());
      return token;
    }
    token.kind = TokenKind::kWord;
    while (at_ < text_.size() && word_character(text_[at_])) token.text += text_[at_++];
    if (token.text.empty()) refuse(token.column, fmt::format("`{}` has no meaning here.", c));
    // metrics.`a key`: the quoted part belongs to the word.
    if (token.text.back() == '.' && at_ < text_.size() && (text_[at_] == '`' || text_[at_] == '"'))
      token.text += quoted(text_[at_]).text;
    return token;
  }

  Token quoted(char quote) {
    Token token{TokenKind::kQuoted, "", at_ + 1, quote};
    size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos)
      refuse(token.column, fmt::format("the {} that opens here is never closed.", quote));
    token.text = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return token;
  }

  std::string_view text_;
  size_t at_ = 0;
};

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  std::vector<FilterComparison> filter() {
    std::vector<FilterComparison> all;
    if (peek().kind == TokenKind::kEnd) return all;
    for (;;) {
      all.push_back(comparison());
      if (peek().kind == TokenKind::kEnd) return all;
      Token joint = take();
      if (is_word(joint, "or"))
        refuse(joint.column, "there is no OR in this grammar; use two filters, one after the other.");
      if (!is_word(joint, "and")) refuse(joint.column, fmt::format("expected `and` or the end, not {}.", shown(joint)));
    }
  }

 private:
  const Token& peek() const { return tokens_[at_]; }
  Token take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  static bool is_word(const Token& token, std::string_view word) {
    return token.kind == TokenKind::kWord && lower(token.text) == word;
  }

  FilterComparison comparison() {
    FilterComparison c;
    Token left = take();
    if (left.kind == TokenKind::kSign && left.text == "(")
      refuse(left.column, "parentheses hold only the list of an IN; comparisons are joined by `and`.");
    if (left.kind != TokenKind::kWord)
      refuse(left.column,
             fmt::format("expected metrics.KEY, params.KEY, tags.KEY or an attribute, not {}.", shown(left)));
    set_left(c, left);
    set_operator(c);
    if (c.op != FilterOp::kIsNull && c.op != FilterOp::kIsNotNull) set_value(c);
    return c;
  }

  void set_left(FilterComparison& c, const Token& left) {
    static const std::map<std::string, FilterEntity, std::less<>> kEntities = {
        {"metric", FilterEntity::kMetric},
        {"metrics", FilterEntity::kMetric},
        {"param", FilterEntity::kParam},
        {"params", FilterEntity::kParam},
        {"parameter", FilterEntity::kParam},
        {"parameters", FilterEntity::kParam},
        {"tag", FilterEntity::kTag},
        {"tags", FilterEntity::kTag},
        {"attr", FilterEntity::kAttribute},
        {"run", FilterEntity::kAttribute},
        {"attribute", FilterEntity::kAttribute},
        {"attributes", FilterEntity::kAttribute}};
    size_t dot = left.text.find('.');
    if (dot == std::string::npos) {
      c.key = left.text;
    } else {
      auto entity = kEntities.find(lower(left.text.substr(0, dot)));
      if (entity == kEntities.end())
        refuse(left.column,
               fmt::format("`{}` is not one of metrics, params, tags, attributes.", left.text.substr(0, dot)));
      c.entity = entity->second;
      c.key = left.text.substr(dot + 1);
      if (c.key.empty()) refuse(left.column + dot + 1, fmt::format("`{}` needs a key after it.", left.text));
    }
    if (c.entity != FilterEntity::kAttribute) return;
    static const std::map<std::string, std::string, std::less<>> kAttributes = {
        {"run_id", "run_id"},         {"run_name", "run_name"},  {"name", "run_name"},    {"status", "status"},
        {"start_time", "start_time"}, {"created", "start_time"}, {"end_time", "end_time"}};
    auto attribute = kAttributes.find(lower(c.key));
    if (attribute == kAttributes.end())
      refuse(left.column, fmt::format("`{}` is no attribute of a run (run_id, run_name, status, start_time, end_time); "
                                      "write metrics., params. or tags. before a key of yours.",
                                      c.key));
    c.key = attribute->second;
  }

  static bool numeric(const FilterComparison& c) {
    return c.entity == FilterEntity::kMetric || c.key == "start_time" || c.key == "end_time";
  }

  void set_operator(FilterComparison& c) {
    static const std::map<std::string, FilterOp, std::less<>> kSigns = {
        {"=", FilterOp::kEq},      {"!=", FilterOp::kNe},       {">", FilterOp::kGt},
        {">=", FilterOp::kGe},     {"<", FilterOp::kLt},        {"<=", FilterOp::kLe},
        {"like", FilterOp::kLike}, {"ilike", FilterOp::kILike}, {"in", FilterOp::kIn}};
    Token token = take();
    bool text_only = false, number_only = false;
    if (is_word(token, "not")) {
      if (!is_word(peek(), "in"))
        refuse(peek().column, fmt::format("expected `in` after `not`, not {}.", shown(peek())));
      take();
      c.op = FilterOp::kNotIn;
      text_only = true;
    } else if (is_word(token, "is")) {
      bool negated = is_word(peek(), "not");
      if (negated) take();
      if (!is_word(peek(), "null")) refuse(peek().column, fmt::format("expected `null`, not {}.", shown(peek())));
      take();
      c.op = negated ? FilterOp::kIsNotNull : FilterOp::kIsNull;
    } else {
      auto sign = token.kind == TokenKind::kQuoted ? kSigns.end() : kSigns.find(lower(token.text));
      if (sign == kSigns.end())
        refuse(token.column, fmt::format("expected =, !=, >, >=, <, <=, LIKE, ILIKE, IN or IS NULL after `{}`, not {}.",
                                         c.key, shown(token)));
      c.op = sign->second;
      text_only = c.op >= FilterOp::kLike;
      number_only = c.op >= FilterOp::kGt && c.op <= FilterOp::kLe;
    }
    if (text_only && numeric(c))
      refuse(token.column, fmt::format("`{}` is a number; compare it with =, !=, >, >=, < or <=.", c.key));
    if (number_only && !numeric(c))
      refuse(token.column, fmt::format("`{}` is text; compare it with =, !=, LIKE, ILIKE or IN.", c.key));
  }

  void set_value(FilterComparison& c) {
    Token value = take();
    if (c.op == FilterOp::kIn || c.op == FilterOp::kNotIn) {
      c.value = list(value);
    } else if (numeric(c)) {
      if (value.kind != TokenKind::kNumber)
        refuse(value.column, fmt::format("expected a number for `{}`, not {}.", c.key, shown(value)));
      c.value = std::stod(value.text);
    } else {
      if (value.kind != TokenKind::kQuoted || value.quote == '`')
        refuse(value.column, fmt::format("expected text in quotes for `{}`, not {}.", c.key, shown(value)));
      c.value = value.text;
    }
  }

  std::vector<std::string> list(const Token& open) {
    if (open.text != "(" || open.kind != TokenKind::kSign)
      refuse(open.column, fmt::format("expected a list like ('a', 'b'), not {}.", shown(open)));
    std::vector<std::string> values;
    for (;;) {
      Token value = take();
      if (value.kind != TokenKind::kQuoted || value.quote == '`')
        refuse(value.column, fmt::format("expected text in quotes, not {}.", shown(value)));
      values.push_back(value.text);
      Token after = take();
      if (after.kind == TokenKind::kSign && after.text == ")") return values;
      if (after.kind != TokenKind::kSign || after.text != ",")
        refuse(after.column, fmt::format("expected `,` or `)` in the list, not {}.", shown(after)));
    }
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace

std::vector<FilterComparison> parse_filter(std::string_view text) { return Parser(Lexer(text).all()).filter(); }

}  // namespace fk
