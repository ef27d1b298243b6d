#include "models/jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "models/jinja/expressions.h"
#include "models/jinja/nesting.h"

namespace fk::jinja {
namespace {

constexpr int kMostNestedBlocks = 100;
constexpr int kMostNestedCalls = 100;

using Body = std::shared_ptr<const std::vector<Statement>>;

std::string render(const Body& body, const ScopePtr& scope) {
  std::string out;
  run_all(*body, scope, out);
  return out;
}

// What is assigned to: a name, several of them, or a field of a namespace.
struct Target {
  std::string name;
  std::string field;          // of the namespace `name`
  std::vector<Target> parts;  // in place of a name

  void assign(Scope& scope, const Value& value) const {
    if (!parts.empty()) {
      List items = elements(value);
      if (items.size() != parts.size())
        throw Fault(fmt::format("{} values are assigned to {} names", items.size(), parts.size()));
      for (size_t i = 0; i < parts.size(); ++i) parts[i].assign(scope, items[i]);
    } else if (field.empty()) {
      scope.set(name, value);
    } else {
      Value of = scope.get(name);
      const auto* ns = of.as<Value::Namespace>();
      if (ns == nullptr) throw Fault(fmt::format("'{}' is no namespace, so its fields cannot be set", name));
      ns->entries->set(field, value);
    }
  }
};

struct Parameter {
  std::string name;
  Expression otherwise;  // empty: there is no default
};

// A macro, or the body of a call block: parameters are bound in a scope inside the one of its definition.
struct Macro {
  std::string name;
  std::vector<Parameter> parameters;
  Body body;

  // The function is kept in the scope it refers to, so it must not keep the scope alive.
  Value bind(const ScopePtr& scope) const {
    return Value::function(name, [self = *this, definition = std::weak_ptr(scope)](const Arguments& given) {
      ScopePtr outer = definition.lock();
      if (!outer) throw Fault(fmt::format("{} is called outside of the block that defines it", self.name));
      return Value(self.call(outer, given));
    });
  }

 private:
  std::string call(const ScopePtr& outer, const Arguments& given) const {
    Run& run = outer->run();
    Nesting nesting(run.depth, kMostNestedCalls, "calls");
    auto scope = std::make_shared<Scope>(run, outer);
    if (given.positional.size() > parameters.size())
      throw Fault(
          fmt::format("{} takes at most {} arguments, not {}", name, parameters.size(), given.positional.size()));
    for (const auto& [given_name, value] : given.named) {
      auto known =
          std::find_if(parameters.begin(), parameters.end(), [&](const Parameter& p) { return p.name == given_name; });
      if (known == parameters.end() && given_name != "caller")
        throw Fault(fmt::format("{} has no argument '{}'", name, given_name));
      if (known != parameters.end() && static_cast<size_t>(known - parameters.begin()) < given.positional.size())
        throw Fault(fmt::format("{} was given '{}' twice", name, given_name));
      scope->set(given_name, value);
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Parameter& p = parameters[i];
      bool named =
          std::any_of(given.named.begin(), given.named.end(), [&](const auto& a) { return a.first == p.name; });
      if (i < given.positional.size())
        scope->set(p.name, given.positional[i]);
      else if (!named)
        scope->set(p.name, p.otherwise ? p.otherwise(scope) : Value::undefined(p.name));
    }
    return render(body, scope);
  }
};

// The variable `loop` in pass i over the items.
Value loop_facts(const List& items, size_t i, const std::shared_ptr<Value>& last_changed) {
  auto count = static_cast<int64_t>(items.size()), at = static_cast<int64_t>(i);
  Dict loop;
  loop.set("index", at + 1);
  loop.set("index0", at);
  loop.set("revindex", count - at);
  loop.set("revindex0", count - at - 1);
  loop.set("first", i == 0);
  loop.set("last", i + 1 == items.size());
  loop.set("length", count);
  loop.set("depth", int64_t{1});
  loop.set("depth0", int64_t{0});
  loop.set("previtem", i == 0 ? Value::undefined("there is no previous item") : items[i - 1]);
  loop.set("nextitem", i + 1 == items.size() ? Value::undefined("there is no next item") : items[i + 1]);
  loop.set("cycle", Value::function("cycle", [i](const Arguments& given) {
             if (given.positional.empty()) throw Fault("cycle wants at least one value");
             return given.positional[i % given.positional.size()];
           }));
  loop.set("changed", Value::function("changed", [last_changed](const Arguments& given) {
             Value now = Value::tuple(given.positional);
             bool differs = last_changed->is_undefined() || !equal(*last_changed, now);
             *last_changed = now;
             return Value(differs);
           }));
  return Value::dict(std::move(loop));
}

struct Loop {
  Target target;
  Expression over;
  Expression filter;  // empty: every item
  Body body, otherwise;
  bool uses_facts = true;  // the body has the name `loop`

  Flow operator()(const ScopePtr& scope, std::string& out) const {
    Run& run = scope->run();
    List items = elements(over(scope));
    if (filter) {
      List kept;
      for (const Value& v : items) {
        run.step();
        auto inner = std::make_shared<Scope>(run, scope);
        target.assign(*inner, v);
        if (truthy(filter(inner))) kept.push_back(v);
      }
      items = std::move(kept);
    }
    if (items.empty()) return otherwise ? run_all(*otherwise, std::make_shared<Scope>(run, scope), out) : Flow::kNext;
    auto last_changed = std::make_shared<Value>();
    for (size_t i = 0; i < items.size(); ++i) {
      run.step();
      auto inner = std::make_shared<Scope>(run, scope);
      if (uses_facts) inner->set("loop", loop_facts(items, i, last_changed));
      target.assign(*inner, items[i]);
      if (run_all(*body, inner, out) == Flow::kBreak) break;
    }
    return Flow::kNext;
  }
};

class Parser {
 public:
  Parser(std::vector<Token> tokens, int& line) : tokens_(std::move(tokens), line), expressions_(tokens_) {}

  std::vector<Statement> whole() { return statements({}); }

 private:
  using Names = std::initializer_list<std::string_view>;

  // Up to a tag of one of these names, whose name is the next token; to the end of the template where there is none.
  std::vector<Statement> statements(Names ends) {
    Nesting nesting(depth_, kMostNestedBlocks, "blocks");
    std::vector<Statement> all;
    while (!tokens_.is(TokenKind::kEnd)) {
      if (tokens_.is(TokenKind::kText)) {
        all.push_back([text = tokens_.next().text](const ScopePtr&, std::string& out) {
          out += text;
          return Flow::kNext;
        });
      } else if (tokens_.is(TokenKind::kBeginVariable)) {
        all.push_back(output());
      } else {
        int line = tokens_.current().line;
        tokens_.expect(TokenKind::kBeginBlock);
        for (std::string_view end : ends)
          if (tokens_.is_name(end)) return all;
        all.push_back(at_line(line, tag()));
      }
    }
    if (ends.size() > 0) throw Fault(fmt::format("{{% {} %}} is missing", *(ends.end() - 1)));
    return all;
  }

  // The statements of a block and its last tag, which has no arguments.
  Body block(std::string_view end) {
    tokens_.expect(TokenKind::kEndBlock);
    Body body = make_body(statements({end}));
    tokens_.next();
    tokens_.expect(TokenKind::kEndBlock);
    return body;
  }

  static Body make_body(std::vector<Statement> all) {
    return std::make_shared<const std::vector<Statement>>(std::move(all));
  }

  static Statement at_line(int line, Statement statement) {
    return [line, statement = std::move(statement)](const ScopePtr& scope, std::string& out) {
      scope->run().line = line;
      return statement(scope, out);
    };
  }

  Statement output() {
    int line = tokens_.current().line;
    tokens_.next();
    Expression value = expressions_.tuple_or_expression();
    tokens_.expect(TokenKind::kEndVariable);
    return at_line(line, [value = std::move(value)](const ScopePtr& scope, std::string& out) {
      out += text(value(scope));
      return Flow::kNext;
    });
  }

  Statement tag() {
    std::string name = tokens_.expect_any_name();
    if (name == "if") return condition();
    if (name == "for") return loop();
    if (name == "set") return assignment();
    if (name == "macro") return macro();
    if (name == "call") return call_block();
    if (name == "filter") return filter_block();
    if (name == "with") return with();
    if (name == "generation") return inner_block("endgeneration");
    if (name == "break" || name == "continue") return jump(name == "break" ? Flow::kBreak : Flow::kContinue, name);
    bool is_end = name.starts_with("end") || name == "else" || name == "elif";
    throw Fault(fmt::format("the tag '{}' {}", name, is_end ? "has no beginning" : "is not supported"));
  }

  // From the condition on; `elif` is an `if` inside `else`.
  Statement condition() {
    Expression test = expressions_.tuple_or_expression();
    tokens_.expect(TokenKind::kEndBlock);
    Body then = make_body(statements({"elif", "else", "endif"})), otherwise = make_body({});
    std::string end = tokens_.next().text;
    if (end == "elif") {
      int line = tokens_.current().line;
      Nesting nesting(depth_, kMostNestedBlocks, "blocks");
      otherwise = make_body({at_line(line, condition())});
    } else {
      tokens_.expect(TokenKind::kEndBlock);
      if (end == "else") {
        otherwise = make_body(statements({"endif"}));
        tokens_.next();
        tokens_.expect(TokenKind::kEndBlock);
      }
    }
    return [test = std::move(test), then, otherwise](const ScopePtr& scope, std::string& out) {
      return run_all(truthy(test(scope)) ? *then : *otherwise, scope, out);
    };
  }

  Statement loop() {
    Loop loop;
    loop.target = targets();
    tokens_.expect_name("in");
    loop.over = expressions_.tuple_or_expression(false);
    if (tokens_.skip_name("if")) loop.filter = expressions_.expression();
    if (tokens_.is_name("recursive")) throw Fault("recursive loops are not supported");
    tokens_.expect(TokenKind::kEndBlock);
    ++loops_;
    int64_t uses = expressions_.uses_of_loop();
    loop.body = make_body(statements({"else", "endfor"}));
    loop.uses_facts = expressions_.uses_of_loop() > uses;
    --loops_;
    bool has_else = tokens_.next().text == "else";
    if (has_else) {
      loop.otherwise = block("endfor");
    } else {
      tokens_.expect(TokenKind::kEndBlock);
    }
    return loop;
  }

  Statement jump(Flow flow, const std::string& name) {
    if (loops_ == 0) throw Fault(fmt::format("'{}' is outside of a loop", name));
    tokens_.expect(TokenKind::kEndBlock);
    return [flow](const ScopePtr&, std::string&) { return flow; };
  }

  Statement assignment() {
    Target target = targets(true);
    if (tokens_.skip_operator("=")) {
      Expression value = expressions_.tuple_or_expression();
      tokens_.expect(TokenKind::kEndBlock);
      return [target = std::move(target), value = std::move(value)](const ScopePtr& scope, std::string&) {
        target.assign(*scope, value(scope));
        return Flow::kNext;
      };
    }
    Expression filtered = block_text();
    while (tokens_.skip_operator("|")) filtered = expressions_.filter(std::move(filtered));
    Body body = block("endset");
    return [target = std::move(target), filtered = std::move(filtered), body](const ScopePtr& scope, std::string&) {
      target.assign(*scope, of_block(filtered, body, scope));
      return Flow::kNext;
    };
  }

  // What filters of a block get: the rendered text, under a name that no template can write.
  static constexpr std::string_view kBlockText = "the text of the block";
  static Expression block_text() {
    return [](const ScopePtr& scope) { return scope->get(kBlockText); };
  }
  static Value of_block(const Expression& filtered, const Body& body, const ScopePtr& scope) {
    std::string text = render(body, std::make_shared<Scope>(scope->run(), scope));
    auto inner = std::make_shared<Scope>(scope->run(), scope);
    inner->set(kBlockText, std::move(text));
    return filtered(inner);
  }

  Statement macro() {
    std::string name = tokens_.expect_any_name();
    Macro macro{.name = name, .parameters = parameters(), .body = function_body("endmacro")};
    return [macro = std::move(macro)](const ScopePtr& scope, std::string&) {
      scope->set(macro.name, macro.bind(scope));
      return Flow::kNext;
    };
  }

  Statement call_block() {
    Macro caller{.name = "caller", .parameters = {}, .body = {}};
    if (tokens_.is_operator("(")) caller.parameters = parameters();
    Expression function = expressions_.callee();
    CallArguments given = expressions_.arguments();
    caller.body = function_body("endcall");
    return [caller = std::move(caller), function = std::move(function), given = std::move(given)](const ScopePtr& scope,
                                                                                                  std::string& out) {
      Arguments all = given.compute(scope);
      all.named.emplace_back("caller", caller.bind(scope));
      out += text(call(function(scope), all));
      return Flow::kNext;
    };
  }

  // A loop around a macro's definition is not one that `break` inside the macro can end.
  Body function_body(std::string_view end) {
    int outside = std::exchange(loops_, 0);
    Body body = block(end);
    loops_ = outside;
    return body;
  }

  std::vector<Parameter> parameters() {
    tokens_.expect_operator("(");
    std::vector<Parameter> all;
    while (!tokens_.is_operator(")")) {
      if (!all.empty()) tokens_.expect_operator(",");
      Parameter p{.name = tokens_.expect_any_name(), .otherwise = {}};
      if (tokens_.skip_operator("=")) {
        p.otherwise = expressions_.expression();
      } else if (!all.empty() && all.back().otherwise) {
        throw Fault("a parameter without a default follows one with a default");
      }
      all.push_back(std::move(p));
    }
    tokens_.expect_operator(")");
    return all;
  }

  Statement filter_block() {
    Expression filtered = expressions_.filter(block_text());
    while (tokens_.skip_operator("|")) filtered = expressions_.filter(std::move(filtered));
    Body body = block("endfilter");
    return [filtered = std::move(filtered), body](const ScopePtr& scope, std::string& out) {
      out += text(of_block(filtered, body, scope));
      return Flow::kNext;
    };
  }

  // The values are computed outside of the new scope.
  Statement with() {
    std::vector<std::pair<Target, Expression>> values;
    while (!tokens_.is(TokenKind::kEndBlock)) {
      if (!values.empty()) tokens_.expect_operator(",");
      Target target = targets();
      tokens_.expect_operator("=");
      values.emplace_back(std::move(target), expressions_.expression());
    }
    Body body = block("endwith");
    return [values = std::move(values), body](const ScopePtr& scope, std::string& out) {
      auto inner = std::make_shared<Scope>(scope->run(), scope);
      for (const auto& [target, value] : values) target.assign(*inner, value(scope));
      return run_all(*body, inner, out);
    };
  }

  Statement inner_block(std::string_view end) {
    Body body = block(end);
    return [body](const ScopePtr& scope, std::string& out) {
      return run_all(*body, std::make_shared<Scope>(scope->run(), scope), out);
    };
  }

  Target targets(bool with_fields = false) {
    Target first = target(with_fields);
    if (!tokens_.is_operator(",")) return first;
    Target all;
    all.parts.push_back(std::move(first));
    while (tokens_.skip_operator(",")) {
      if (tokens_.is_name("in") || tokens_.is_operator("=")) break;
      all.parts.push_back(target(with_fields));
    }
    return all;
  }

  Target target(bool with_fields) {
    if (tokens_.skip_operator("(")) {
      Nesting nesting(depth_, kMostNestedBlocks, "names");
      Target inside = targets(with_fields);
      tokens_.expect_operator(")");
      return inside;
    }
    Target one;
    one.name = tokens_.expect_any_name();
    for (std::string_view reserved : {"true", "false", "none", "True", "False", "None"})
      if (one.name == reserved) throw Fault(fmt::format("nothing can be assigned to '{}'", one.name));
    if (with_fields && tokens_.skip_operator(".")) one.field = tokens_.expect_any_name();
    return one;
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int depth_ = 0, loops_ = 0;
};

}  // namespace

std::vector<Statement> parse(std::vector<Token> tokens, int& line) { return Parser(std::move(tokens), line).whole(); }

}  // namespace fk::jinja
