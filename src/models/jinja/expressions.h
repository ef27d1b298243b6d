// ExpressionParser: the expressions of Jinja, in its order of precedence.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/jinja/runtime.h"
#include "models/jinja/token_stream.h"

namespace fk::jinja {

// The arguments of a call, not yet computed.
struct CallArguments {
  std::vector<Expression> positional;
  std::vector<std::pair<std::string, Expression>> named;

  Arguments compute(const ScopePtr& scope) const;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  Expression expression(bool with_condition = true);
  // One expression, or a tuple where commas follow.
  Expression tuple_or_expression(bool with_condition = true);
  Expression callee();        // what a call block calls, up to the opening bracket
  CallArguments arguments();  // from the opening bracket on
  // A filter's name and arguments, applied to `input`.
  Expression filter(Expression input);
  int64_t uses_of_loop() const { return uses_of_loop_; }  // of the name `loop`, so far

 private:
  Expression condition();
  Expression disjunction();
  Expression conjunction();
  Expression negation();
  Expression comparison();
  Expression sum();
  Expression concatenation();
  Expression product();
  Expression power();
  Expression unary(bool with_filters = true);
  Expression primary();
  Expression postfix(Expression of, bool with_calls = true);
  Expression filters(Expression of);
  Expression test(Expression of);
  Expression subscript(Expression of);
  Expression list();
  Expression dict();
  bool ends_expression() const;

  TokenStream& tokens_;
  int depth_ = 0;
  int64_t uses_of_loop_ = 0;
};

}  // namespace fk::jinja
