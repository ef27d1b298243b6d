#include "models/jinja/expressions.h"

#include <fmt/format.h>

#include <charconv>

#include "models/jinja/filters.h"
#include "models/jinja/nesting.h"
#include "models/jinja/tests.h"

namespace fk::jinja {
namespace {

constexpr int kMostNested = 200;

Expression constant(Value value) {
  return [value = std::move(value)](const ScopePtr&) { return value; };
}

Expression apply_binary(std::string op, Expression a, Expression b) {
  return [op = std::move(op), a = std::move(a), b = std::move(b)](const ScopePtr& s) {
    Value left = a(s);
    return binary(op, left, b(s));
  };
}

template <class Number>
Number number(const std::string& text) {
  Number value{};
  auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec != std::errc()) throw Fault(fmt::format("the number {} is too large", text));
  return value;
}

}  // namespace

Arguments CallArguments::compute(const ScopePtr& scope) const {
  Arguments all;
  for (const Expression& e : positional) all.positional.push_back(e(scope));
  for (const auto& [name, e] : named) all.named.emplace_back(name, e(scope));
  return all;
}

Expression ExpressionParser::expression(bool with_condition) {
  Nesting nesting(depth_, kMostNested, "expressions");
  return with_condition ? condition() : disjunction();
}

Expression ExpressionParser::tuple_or_expression(bool with_condition) {
  Expression first = expression(with_condition);
  if (!tokens_.is_operator(",")) return first;
  std::vector<Expression> parts{std::move(first)};
  while (tokens_.skip_operator(",") && !ends_expression()) parts.push_back(expression(with_condition));
  return [parts = std::move(parts)](const ScopePtr& s) {
    List items;
    for (const Expression& e : parts) items.push_back(e(s));
    return Value::tuple(std::move(items));
  };
}

bool ExpressionParser::ends_expression() const {
  return tokens_.is(TokenKind::kEndBlock) || tokens_.is(TokenKind::kEndVariable) || tokens_.is_operator(")") ||
         tokens_.is_operator("=") || tokens_.is_name("in");
}

Expression ExpressionParser::condition() {
  Expression value = disjunction();
  while (tokens_.skip_name("if")) {
    Expression test = disjunction(), other;
    if (tokens_.skip_name("else")) {
      Nesting nesting(depth_, kMostNested, "expressions");
      other = condition();
    }
    value = [value = std::move(value), test = std::move(test), other = std::move(other)](const ScopePtr& s) {
      if (truthy(test(s))) return value(s);
      return other ? other(s) : Value::undefined("the value of an if without else");
    };
  }
  return value;
}

Expression ExpressionParser::disjunction() {
  Expression left = conjunction();
  while (tokens_.skip_name("or"))
    left = [a = std::move(left), b = conjunction()](const ScopePtr& s) {
      Value first = a(s);
      return truthy(first) ? first : b(s);
    };
  return left;
}

Expression ExpressionParser::conjunction() {
  Expression left = negation();
  while (tokens_.skip_name("and"))
    left = [a = std::move(left), b = negation()](const ScopePtr& s) {
      Value first = a(s);
      return truthy(first) ? b(s) : first;
    };
  return left;
}

Expression ExpressionParser::negation() {
  if (!tokens_.skip_name("not")) return comparison();
  Nesting nesting(depth_, kMostNested, "expressions");
  return [of = negation()](const ScopePtr& s) { return Value(!truthy(of(s))); };
}

// a < b < c is a < b and b < c, with b computed once.
Expression ExpressionParser::comparison() {
  Expression first = sum();
  std::vector<std::pair<std::string, Expression>> rest;
  while (true) {
    std::string op;
    for (std::string_view known : {"==", "!=", "<", "<=", ">", ">="})
      if (tokens_.is_operator(known)) op = known;
    if (tokens_.is_name("in")) op = "in";
    if (tokens_.is_name("not") && tokens_.ahead().kind == TokenKind::kName && tokens_.ahead().text == "in") {
      tokens_.next();
      op = "not in";
    }
    if (op.empty()) break;
    tokens_.next();
    rest.emplace_back(op, sum());
  }
  if (rest.empty()) return first;
  return [first = std::move(first), rest = std::move(rest)](const ScopePtr& s) {
    Value left = first(s);
    for (const auto& [op, e] : rest) {
      Value right = e(s);
      if (!truthy(binary(op, left, right))) return Value(false);
      left = std::move(right);
    }
    return Value(true);
  };
}

Expression ExpressionParser::sum() {
  Expression left = concatenation();
  while (tokens_.is_operator("+") || tokens_.is_operator("-")) {
    std::string op = tokens_.next().text;
    left = apply_binary(op, std::move(left), concatenation());
  }
  return left;
}

Expression ExpressionParser::concatenation() {
  Expression left = product();
  while (tokens_.skip_operator("~"))
    left = [a = std::move(left), b = product()](const ScopePtr& s) {
      std::string start = text(a(s));
      return Value(start + text(b(s)));
    };
  return left;
}

Expression ExpressionParser::product() {
  Expression left = power();
  while (tokens_.is_operator("*") || tokens_.is_operator("/") || tokens_.is_operator("//") ||
         tokens_.is_operator("%")) {
    std::string op = tokens_.next().text;
    left = apply_binary(op, std::move(left), power());
  }
  return left;
}

Expression ExpressionParser::power() {
  Expression left = unary();
  while (tokens_.skip_operator("**")) left = apply_binary("**", std::move(left), unary());
  return left;
}

Expression ExpressionParser::unary(bool with_filters) {
  Nesting nesting(depth_, kMostNested, "expressions");
  Expression value;
  if (tokens_.is_operator("-") || tokens_.is_operator("+")) {
    std::string op = tokens_.next().text;
    value = apply_binary(op, constant(int64_t{0}), unary(false));
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filters ? filters(std::move(value)) : value;
}

Expression ExpressionParser::primary() {
  const Token& token = tokens_.current();
  switch (token.kind) {
    case TokenKind::kName: {
      std::string name = tokens_.next().text;
      if (name == "loop") ++uses_of_loop_;
      if (name == "true" || name == "True") return constant(true);
      if (name == "false" || name == "False") return constant(false);
      if (name == "none" || name == "None") return constant(Value::none());
      return [name = std::move(name)](const ScopePtr& s) { return s->get(name); };
    }
    case TokenKind::kString: {
      std::string value;
      while (tokens_.is(TokenKind::kString)) value += tokens_.next().text;
      return constant(std::move(value));
    }
    case TokenKind::kInteger:
      return constant(number<int64_t>(tokens_.next().text));
    case TokenKind::kFloat:
      return constant(number<double>(tokens_.next().text));
    default:
      break;
  }
  if (tokens_.skip_operator("(")) {
    if (tokens_.skip_operator(")")) return constant(Value::tuple({}));
    Expression inside = tuple_or_expression();
    tokens_.expect_operator(")");
    return inside;
  }
  if (tokens_.is_operator("[")) return list();
  if (tokens_.is_operator("{")) return dict();
  throw Fault(token.text.empty() ? std::string("an expression is missing")
                                 : fmt::format("an expression is expected, not '{}'", token.text));
}

Expression ExpressionParser::list() {
  tokens_.expect_operator("[");
  std::vector<Expression> parts;
  while (!tokens_.is_operator("]")) {
    if (!parts.empty()) tokens_.expect_operator(",");
    if (tokens_.is_operator("]")) break;
    parts.push_back(expression());
  }
  tokens_.expect_operator("]");
  return [parts = std::move(parts)](const ScopePtr& s) {
    List items;
    for (const Expression& e : parts) items.push_back(e(s));
    return Value::list(std::move(items));
  };
}

Expression ExpressionParser::dict() {
  tokens_.expect_operator("{");
  std::vector<std::pair<Expression, Expression>> parts;
  while (!tokens_.is_operator("}")) {
    if (!parts.empty()) tokens_.expect_operator(",");
    if (tokens_.is_operator("}")) break;
    Expression key = expression();
    tokens_.expect_operator(":");
    parts.emplace_back(std::move(key), expression());
  }
  tokens_.expect_operator("}");
  return [parts = std::move(parts)](const ScopePtr& s) {
    Dict entries;
    for (const auto& [key, value] : parts) {
      Value k = key(s);
      entries.set(std::move(k), value(s));
    }
    return Value::dict(std::move(entries));
  };
}

Expression ExpressionParser::callee() { return postfix(primary(), false); }

Expression ExpressionParser::postfix(Expression of, bool with_calls) {
  while (true) {
    if (with_calls && tokens_.is_operator("(")) {
      of = [f = std::move(of), given = arguments()](const ScopePtr& s) {
        Value function = f(s);
        s->run().step();
        return call(function, given.compute(s));
      };
    } else if (tokens_.skip_operator(".")) {
      if (tokens_.is(TokenKind::kInteger)) {
        Value key(number<int64_t>(tokens_.next().text));
        of = [of = std::move(of), key](const ScopePtr& s) { return item(of(s), key); };
      } else {
        std::string name = tokens_.expect_any_name();
        of = [of = std::move(of), name](const ScopePtr& s) { return attribute(of(s), name); };
      }
    } else if (tokens_.is_operator("[")) {
      of = subscript(std::move(of));
    } else {
      return of;
    }
  }
}

Expression ExpressionParser::subscript(Expression of) {
  tokens_.expect_operator("[");
  Expression parts[3];
  int count = 0;
  bool is_slice = false;
  while (!tokens_.is_operator("]")) {
    if (tokens_.skip_operator(":")) {
      is_slice = true;
      if (++count > 2) throw Fault("a slice has at most three parts");
    } else {
      parts[count] = expression();
      if (!tokens_.is_operator(":") && !tokens_.is_operator("]")) tokens_.expect_operator("]");
    }
  }
  tokens_.expect_operator("]");
  if (!is_slice) {
    if (!parts[0]) throw Fault("a subscript is empty");
    return [of = std::move(of), key = std::move(parts[0])](const ScopePtr& s) {
      Value base = of(s);
      return item(base, key(s));
    };
  }
  return [of = std::move(of), first = std::move(parts[0]), end = std::move(parts[1]),
          step = std::move(parts[2])](const ScopePtr& s) {
    auto part = [&](const Expression& e) { return e ? e(s) : Value::none(); };
    Value base = of(s);
    return slice(base, part(first), part(end), part(step));
  };
}

CallArguments ExpressionParser::arguments() {
  tokens_.expect_operator("(");
  CallArguments all;
  bool first = true;
  while (!tokens_.is_operator(")")) {
    if (!first) tokens_.expect_operator(",");
    if (tokens_.is_operator(")")) break;
    first = false;
    if (tokens_.is_operator("*") || tokens_.is_operator("**")) throw Fault("arguments with * and ** are not supported");
    if (tokens_.is(TokenKind::kName) && tokens_.ahead().kind == TokenKind::kOperator && tokens_.ahead().text == "=") {
      std::string name = tokens_.next().text;
      tokens_.expect_operator("=");
      all.named.emplace_back(std::move(name), expression());
    } else {
      if (!all.named.empty()) throw Fault("an argument without a name follows one with a name");
      all.positional.push_back(expression());
    }
  }
  tokens_.expect_operator(")");
  return all;
}

Expression ExpressionParser::filters(Expression of) {
  while (true) {
    if (tokens_.skip_operator("|"))
      of = filter(std::move(of));
    else if (tokens_.skip_name("is"))
      of = test(std::move(of));
    else if (tokens_.is_operator("("))
      of = postfix(std::move(of));
    else
      return of;
  }
}

// An unknown filter or test is an error when it is used, as in Jinja: templates have branches for other programs.
Expression ExpressionParser::filter(Expression of) {
  std::string name = tokens_.expect_any_name();
  CallArguments given;
  if (tokens_.is_operator("(")) given = arguments();
  return [of = std::move(of), name = std::move(name), given = std::move(given)](const ScopePtr& s) {
    Value input = of(s);
    return apply_filter(name, input, given.compute(s));
  };
}

Expression ExpressionParser::test(Expression of) {
  bool wanted = !tokens_.skip_name("not");
  std::string name = tokens_.expect_any_name();
  CallArguments given;
  if (tokens_.is_operator("(")) {
    given = arguments();
  } else {
    const Token& t = tokens_.current();
    bool value = t.kind == TokenKind::kString || t.kind == TokenKind::kInteger || t.kind == TokenKind::kFloat ||
                 tokens_.is_operator("[") || tokens_.is_operator("{");
    bool keyword = false;
    for (std::string_view word : {"else", "or", "and", "if", "is", "in", "not", "recursive"})
      keyword = keyword || tokens_.is_name(word);
    if (value || (t.kind == TokenKind::kName && !keyword)) given.positional.push_back(postfix(primary()));
  }
  return [of = std::move(of), name = std::move(name), given = std::move(given), wanted](const ScopePtr& s) {
    Value input = of(s);
    return Value(apply_test(name, input, given.compute(s)) == wanted);
  };
}

}  // namespace fk::jinja
