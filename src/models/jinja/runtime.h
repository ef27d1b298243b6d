// What a parsed template consists of: functions that compute a value or write text in a scope.
#pragma once

#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/jinja/value.h"

namespace fk::jinja {

// Of one rendering: what all scopes share.
struct Run {
  std::time_t now = 0;  // for strftime_now
  int line = 0;         // of the statement that runs, for errors
  int64_t steps = 0;    // passes through loops and calls, bounded so that no template runs for ever
  int depth = 0;        // of calls, bounded likewise

  void step();
};

// Names of a template, a loop's pass, a macro's call or a block; those of outer scopes can be read.
class Scope {
 public:
  Scope(Run& run, std::shared_ptr<Scope> outer) : run_(run), outer_(std::move(outer)) {}

  Value get(std::string_view name) const;
  void set(std::string_view name, Value value) { names_.insert_or_assign(std::string(name), std::move(value)); }
  Run& run() const { return run_; }

 private:
  Run& run_;
  std::shared_ptr<Scope> outer_;
  std::map<std::string, Value, std::less<>> names_;
};
using ScopePtr = std::shared_ptr<Scope>;

enum class Flow : uint8_t { kNext, kBreak, kContinue };
using Expression = std::function<Value(const ScopePtr&)>;
using Statement = std::function<Flow(const ScopePtr&, std::string& out)>;

Flow run_all(const std::vector<Statement>& statements, const ScopePtr& scope, std::string& out);

Value call(const Value& function, const Arguments& arguments);
// a.name: a method or an attribute, else the item of that name; a[key]: the item, else the attribute.
Value attribute(const Value& of, std::string_view name);
Value item(const Value& of, const Value& key);
Value slice(const Value& of, const Value& first, const Value& end, const Value& step);
Value binary(std::string_view op, const Value& a, const Value& b);
Value added(const Value& a, const Value& b);  // two texts

// Names every template can use: range, namespace, dict, raise_exception, strftime_now.
void define_globals(Scope& scope);

}  // namespace fk::jinja
