#include "models/jinja/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "models/jinja/arguments.h"
#include "models/jinja/methods.h"
#include "models/jinja/python_text.h"
#include "models/unicode.h"

namespace fk::jinja {
namespace {

constexpr int64_t kMostSteps = 1'000'000;
constexpr int64_t kMostText = 64 << 20;
constexpr int64_t kMostRange = 100'000;  // as in Jinja's sandbox

[[noreturn]] void refuse_undefined(const Value& v) {
  throw Fault(fmt::format("'{}' is undefined", v.as<Value::Undefined>()->name));
}

Value checked(bool overflow, int64_t result) {
  if (overflow) throw Fault("a number does not fit in 64 bits");
  return result;
}

int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

Value integer_operation(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;  // computed before checked() is called: the order of its arguments is not defined
  if (op == "+") {
    overflow = __builtin_add_overflow(a, b, &result);
    return checked(overflow, result);
  }
  if (op == "-") {
    overflow = __builtin_sub_overflow(a, b, &result);
    return checked(overflow, result);
  }
  if (op == "*") {
    overflow = __builtin_mul_overflow(a, b, &result);
    return checked(overflow, result);
  }
  if (op == "**") {
    if (b < 0) return std::pow(static_cast<double>(a), static_cast<double>(b));
    result = 1;
    for (int64_t i = 0; i < b && !overflow && (a > 1 || a < -1 || i < 2); ++i)
      overflow = __builtin_mul_overflow(result, a, &result);
    if (a == -1) result = b % 2 == 0 ? 1 : -1;
    return checked(overflow, result);
  }
  if (b == 0) throw Fault("a number is divided by zero");
  if (op == "/") return static_cast<double>(a) / static_cast<double>(b);
  if (b == -1) return op == "//" ? integer_operation("-", 0, a) : Value(int64_t{0});
  return op == "//" ? floor_divide(a, b) : a - floor_divide(a, b) * b;
}

Value float_operation(std::string_view op, double a, double b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op == "**") return std::pow(a, b);
  if (b == 0) throw Fault("a number is divided by zero");
  if (op == "/") return a / b;
  return op == "//" ? std::floor(a / b) : a - std::floor(a / b) * b;
}

Value repeated(const Value& of, int64_t times) {
  times = std::max<int64_t>(times, 0);
  if (const std::string* s = of.string()) {
    if (!s->empty() && times > kMostText / static_cast<int64_t>(s->size())) throw Fault("a text becomes too long");
    std::string all;
    for (int64_t i = 0; i < times; ++i) all += *s;
    return all;
  }
  const List& items = *of.items();
  if (!items.empty() && times > kMostRange / static_cast<int64_t>(items.size())) throw Fault("a list becomes too long");
  List all;
  for (int64_t i = 0; i < times; ++i) all.insert(all.end(), items.begin(), items.end());
  return of.as<Value::Sequence>()->is_tuple ? Value::tuple(std::move(all)) : Value::list(std::move(all));
}

Value range(const Arguments& given) {
  ArgumentReader read("range", given, {"start", "stop", "step"});
  int64_t first = to_integer(read.required("start"), "start"), end = 0, step = read.integer("step", 1);
  if (read.find("stop") != nullptr)
    end = to_integer(read.required("stop"), "stop");
  else
    std::swap(first, end);
  if (step == 0) throw Fault("the step of a range must not be 0");
  List items;
  for (int64_t i = first; step > 0 ? i < end : i > end; i += step) {
    if (static_cast<int64_t>(items.size()) == kMostRange)
      throw Fault(fmt::format("a range has more than {} numbers", kMostRange));
    items.emplace_back(i);
  }
  return Value::list(std::move(items));
}

Dict named_entries(std::string_view what, const Arguments& given) {
  Dict entries;
  if (given.positional.size() > 1) throw Fault(fmt::format("{} takes one dict and names", what));
  if (!given.positional.empty()) {
    const Dict* first = given.positional[0].entries();
    if (first == nullptr) throw Fault(fmt::format("{} takes a dict, not {}", what, type_name(given.positional[0])));
    entries = *first;
  }
  for (const auto& [name, value] : given.named) entries.set(name, value);
  return entries;
}

std::string formatted_time(std::time_t now, const std::string& format) {
  std::tm local{};
  localtime_r(&now, &local);
  std::string text(256 + format.size() * 4, '\0');
  text.resize(std::strftime(text.data(), text.size(), format.c_str(), &local));
  return text;
}

}  // namespace

void Run::step() {
  if (++steps > kMostSteps) throw Fault("it does not end: more than a million passes and calls");
}

Value Scope::get(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer_.get())
    if (auto found = scope->names_.find(name); found != scope->names_.end()) return found->second;
  return Value::undefined(name);
}

Flow run_all(const std::vector<Statement>& statements, const ScopePtr& scope, std::string& out) {
  for (const Statement& s : statements) {
    if (Flow flow = s(scope, out); flow != Flow::kNext) return flow;
    if (static_cast<int64_t>(out.size()) > kMostText) throw Fault("the text becomes too long");
  }
  return Flow::kNext;
}

Value call(const Value& function, const Arguments& arguments) {
  if (function.is_undefined()) refuse_undefined(function);
  const auto* callable = function.as<Value::Callable>();
  if (callable == nullptr) throw Fault(fmt::format("a {} cannot be called", type_name(function)));
  return (*callable->function)(arguments);
}

Value attribute(const Value& of, std::string_view name) {
  if (of.is_undefined()) refuse_undefined(of);
  if (std::optional<Value> found = method(of, name)) return *found;
  if (const auto* ns = of.as<Value::Namespace>()) {
    const Value* found = ns->entries->find(name);
    return found != nullptr ? *found : Value::undefined(name);
  }
  if (of.entries() != nullptr)
    if (const Value* found = of.entries()->find(name)) return *found;
  return Value::undefined(name);
}

Value item(const Value& of, const Value& key) {
  if (of.is_undefined()) refuse_undefined(of);
  if (of.entries() != nullptr) {
    if (const Value* found = of.entries()->find(key)) return *found;
  } else if (key.is_integer() && (of.items() != nullptr || of.string() != nullptr)) {
    List all = elements(of);
    int64_t i = to_integer(key, "an index"), size = static_cast<int64_t>(all.size());
    if (i < 0) i += size;
    if (i >= 0 && i < size) return all[static_cast<size_t>(i)];
    return Value::undefined("an element behind the end");
  }
  if (key.string() != nullptr) return attribute(of, *key.string());
  return Value::undefined(fmt::format("{} of a {}", text(key), type_name(of)));
}

Value slice(const Value& of, const Value& first, const Value& end, const Value& step) {
  if (of.is_undefined()) refuse_undefined(of);
  if (of.string() == nullptr && of.items() == nullptr) throw Fault(fmt::format("a {} cannot be sliced", type_name(of)));
  List all = elements(of);
  auto size = static_cast<int64_t>(all.size());
  int64_t by = step.is_none() ? 1 : to_integer(step, "the step of a slice");
  if (by == 0) throw Fault("the step of a slice must not be 0");
  auto place = [&](const Value& v, int64_t otherwise) {
    if (v.is_none()) return otherwise;
    int64_t at = to_integer(v, "a slice's place");
    if (at < 0) at += size;
    return std::clamp<int64_t>(at, by < 0 ? -1 : 0, by < 0 ? size - 1 : size);
  };
  int64_t from = place(first, by < 0 ? size - 1 : 0), to = place(end, by < 0 ? -1 : size);
  List picked;
  for (int64_t i = from; by > 0 ? i < to : i > to; i += by) picked.push_back(all[static_cast<size_t>(i)]);
  if (of.string() != nullptr) {
    std::string joined;
    for (const Value& v : picked) joined += *v.string();
    return joined;
  }
  return of.as<Value::Sequence>()->is_tuple ? Value::tuple(std::move(picked)) : Value::list(std::move(picked));
}

Value added(const Value& a, const Value& b) {
  if (!a.is<Value::Markup>() && !b.is<Value::Markup>()) return text(a) + text(b);
  auto escaped = [](const Value& v) { return v.is<Value::Markup>() ? text(v) : html_escaped(text(v)); };
  return Value::markup(escaped(a) + escaped(b));
}

Value binary(std::string_view op, const Value& a, const Value& b) {
  if (op == "==") return equal(a, b);
  if (op == "!=") return !equal(a, b);
  if (op == "in") return contains(b, a);
  if (op == "not in") return !contains(b, a);
  if (a.is_undefined()) refuse_undefined(a);
  if (b.is_undefined()) refuse_undefined(b);
  if (op == "<") return less(a, b);
  if (op == ">") return less(b, a);
  if (op == "<=") return a.is_number() && b.is_number() ? to_double(a) <= to_double(b) : !less(b, a);
  if (op == ">=") return a.is_number() && b.is_number() ? to_double(a) >= to_double(b) : !less(a, b);
  if (a.is_integer() && b.is_integer()) return integer_operation(op, to_integer(a, ""), to_integer(b, ""));
  if (a.is_number() && b.is_number()) return float_operation(op, to_double(a), to_double(b));
  if (op == "+" && a.string() != nullptr && b.string() != nullptr) return added(a, b);
  if (op == "+" && a.items() != nullptr && b.items() != nullptr && type_name(a) == type_name(b)) {
    List all = *a.items();
    all.insert(all.end(), b.items()->begin(), b.items()->end());
    return a.as<Value::Sequence>()->is_tuple ? Value::tuple(std::move(all)) : Value::list(std::move(all));
  }
  auto is_series = [](const Value& v) { return v.string() != nullptr || v.items() != nullptr; };
  if (op == "*" && is_series(a) && b.is_integer()) return repeated(a, to_integer(b, ""));
  if (op == "*" && is_series(b) && a.is_integer()) return repeated(b, to_integer(a, ""));
  throw Fault(fmt::format("'{}' does not work between {} and {}", op, type_name(a), type_name(b)));
}

void define_globals(Scope& scope) {
  auto define = [&](const char* name, Function f) { scope.set(name, Value::function(name, std::move(f))); };
  define("range", range);
  define("dict", [](const Arguments& given) { return Value::dict(named_entries("dict", given)); });
  define("namespace", [](const Arguments& given) { return Value::name_space(named_entries("namespace", given)); });
  define("raise_exception", [](const Arguments& given) -> Value {
    throw Error("The chat template refuses this conversation: {}",
                text(ArgumentReader("raise_exception", given, {"message"}).required("message")));
  });
  define("strftime_now", [&run = scope.run()](const Arguments& given) {
    return Value(formatted_time(run.now, ArgumentReader("strftime_now", given, {"format"}).text_of("format")));
  });
}

}  // namespace fk::jinja
