#include "models/jinja/token_stream.h"

#include <fmt/format.h>

#include "models/jinja/value.h"

namespace fk::jinja {
namespace {

std::string_view words(TokenKind kind) {
  switch (kind) {
    case TokenKind::kText:
      return "text";
    case TokenKind::kBeginBlock:
      return "\"{%\"";
    case TokenKind::kEndBlock:
      return "\"%}\"";
    case TokenKind::kBeginVariable:
      return "\"{{\"";
    case TokenKind::kEndVariable:
      return "\"}}\"";
    case TokenKind::kName:
      return "a name";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return "a number";
    case TokenKind::kOperator:
      return "an operator";
    case TokenKind::kEnd:
      return "the end of the template";
  }
  return "";
}

}  // namespace

Token TokenStream::next() {
  Token token = current();
  if (at_ + 1 < tokens_.size()) ++at_;
  mark();
  return token;
}

bool TokenStream::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  next();
  return true;
}

bool TokenStream::skip_operator(std::string_view op) {
  if (!is_operator(op)) return false;
  next();
  return true;
}

void TokenStream::expect_operator(std::string_view op) {
  if (!skip_operator(op)) refuse(fmt::format("'{}'", op));
}

void TokenStream::expect_name(std::string_view name) {
  if (!skip_name(name)) refuse(fmt::format("'{}'", name));
}

std::string TokenStream::expect_any_name() {
  if (!is(TokenKind::kName)) refuse("a name");
  return next().text;
}

void TokenStream::expect(TokenKind kind) {
  if (!is(kind)) refuse(words(kind));
  next();
}

void TokenStream::refuse(std::string_view wanted) const {
  const Token& found = current();
  throw Fault(fmt::format(
      "{} is expected, not {}", wanted,
      found.text.empty() || found.kind == TokenKind::kText ? std::string(words(found.kind)) : "'" + found.text + "'"));
}

}  // namespace fk::jinja
