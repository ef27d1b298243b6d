// The tokens of a Jinja template, with trim_blocks and lstrip_blocks as chat templates are read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fk::jinja {

enum class TokenKind : uint8_t {
  kText,           // between tags
  kBeginBlock,     // {%
  kEndBlock,       // %}
  kBeginVariable,  // {{
  kEndVariable,    // }}
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string text;  // of a string: with its escapes resolved
  int line;
};

// `source` is valid UTF-8. Throws Fault, with the line in `line`.
std::vector<Token> tokenize(std::string_view source, int& line);

}  // namespace fk::jinja
