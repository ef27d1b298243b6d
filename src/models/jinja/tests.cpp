#include "models/jinja/tests.h"

#include <fmt/format.h>

#include <map>

#include "models/jinja/arguments.h"
#include "models/jinja/python_text.h"
#include "models/jinja/runtime.h"

namespace fk::jinja {
namespace {

bool is_sequence(const Value& v) {
  return v.is_undefined() || v.string() != nullptr || v.items() != nullptr || v.entries() != nullptr;
}

using PlainTest = bool (*)(const Value& v);
const std::map<std::string_view, PlainTest>& plain_tests() {
  static const std::map<std::string_view, PlainTest> all = {
      {"boolean", [](const Value& v) { return v.is<bool>(); }},
      {"callable", [](const Value& v) { return v.is<Value::Callable>(); }},
      {"defined", [](const Value& v) { return !v.is_undefined(); }},
      {"even", [](const Value& v) { return truthy(binary("==", binary("%", v, int64_t{2}), int64_t{0})); }},
      {"false", [](const Value& v) { return v.is<bool>() && !*v.as<bool>(); }},
      {"float", [](const Value& v) { return v.is<double>(); }},
      {"integer", [](const Value& v) { return v.is<int64_t>(); }},
      {"iterable", [](const Value& v) { return is_sequence(v) || v.is<Value::Generator>(); }},
      {"lower", [](const Value& v) { return text(v) == to_lower(text(v)) && text(v) != to_upper(text(v)); }},
      {"mapping", [](const Value& v) { return v.entries() != nullptr; }},
      {"none", [](const Value& v) { return v.is_none(); }},
      {"number", [](const Value& v) { return v.is_number(); }},
      {"odd", [](const Value& v) { return truthy(binary("==", binary("%", v, int64_t{2}), int64_t{1})); }},
      // Whatever has a length and items, as Jinja defines it: strings and dicts too.
      {"sequence", is_sequence},
      {"string", [](const Value& v) { return v.string() != nullptr; }},
      {"true", [](const Value& v) { return v.is<bool>() && *v.as<bool>(); }},
      {"undefined", [](const Value& v) { return v.is_undefined(); }},
      {"upper", [](const Value& v) { return text(v) == to_upper(text(v)) && text(v) != to_lower(text(v)); }},
  };
  return all;
}

// Tests with an argument, by the operator they stand for.
const std::map<std::string_view, std::string_view>& comparisons() {
  static const std::map<std::string_view, std::string_view> all = {
      {"==", "=="}, {"eq", "=="}, {"equalto", "=="}, {"!=", "!="},        {"ne", "!="}, {"<", "<"},
      {"lt", "<"},  {"<=", "<="}, {"le", "<="},      {">", ">"},          {"gt", ">"},  {">=", ">="},
      {"ge", ">="}, {"in", "in"}, {"lessthan", "<"}, {"greaterthan", ">"}};
  return all;
}

}  // namespace

bool apply_test(std::string_view name, const Value& value, const Arguments& given) {
  if (auto plain = plain_tests().find(name); plain != plain_tests().end()) {
    ArgumentReader(name, given, {});
    return plain->second(value);
  }
  const auto found = comparisons().find(name);
  if (found != comparisons().end())
    return truthy(binary(found->second, value, ArgumentReader(name, given, {"other"}).required("other")));
  if (name == "divisibleby")
    return truthy(binary("==", binary("%", value, ArgumentReader(name, given, {"num"}).required("num")), int64_t{0}));
  if (name == "sameas") {
    Value other = ArgumentReader(name, given, {"other"}).required("other");
    return type_name(value) == type_name(other) && equal(value, other);
  }
  throw Fault(fmt::format("the test '{}' is not supported", name));
}

}  // namespace fk::jinja
