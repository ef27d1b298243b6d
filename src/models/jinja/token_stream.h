// TokenStream: the tokens of a template, read one by one.
#pragma once

#include <string_view>
#include <vector>

#include "models/jinja/lexer.h"

namespace fk::jinja {

class TokenStream {
 public:
  TokenStream(std::vector<Token> tokens, int& line) : tokens_(std::move(tokens)), line_(line) { mark(); }

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token next();
  bool is(TokenKind kind) const { return current().kind == kind; }
  bool is_name(std::string_view name) const { return is(TokenKind::kName) && current().text == name; }
  bool is_operator(std::string_view op) const { return is(TokenKind::kOperator) && current().text == op; }
  bool skip_name(std::string_view name);
  bool skip_operator(std::string_view op);
  void expect_operator(std::string_view op);
  void expect_name(std::string_view name);
  std::string expect_any_name();
  void expect(TokenKind kind);

 private:
  [[noreturn]] void refuse(std::string_view wanted) const;
  void mark() { line_ = current().line; }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int& line_;
};

}  // namespace fk::jinja
