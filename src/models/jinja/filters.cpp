#include "models/jinja/filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "models/jinja/arguments.h"
#include "models/jinja/json.h"
#include "models/jinja/list_filters.h"
#include "models/jinja/python_text.h"
#include "models/jinja/runtime.h"

namespace fk::jinja {
namespace {

Value or_default(const Value& input, const Arguments& given) {
  ArgumentReader read("default", given, {"default_value", "boolean"});
  const Value* otherwise = read.find("default_value");
  bool missing = input.is_undefined() || (read.flag("boolean", false) && !truthy(input));
  return !missing ? input : otherwise != nullptr ? *otherwise : Value("");
}

Value trimmed(const Value& input, const Arguments& given) {
  ArgumentReader read("trim", given, {"chars"});
  const Value* chars = read.find("chars");
  if (chars == nullptr || chars->is_none()) return strip(text(input), true, true);
  std::string set = read.text_of("chars");
  std::string_view view = set;
  return strip(text(input), true, true, &view);
}

Value indented(const Value& input, const Arguments& given) {
  ArgumentReader read("indent", given, {"width", "first", "blank"});
  const Value* width = read.find("width");
  std::string space =
      width != nullptr && width->string() != nullptr
          ? *width->string()
          : std::string(static_cast<size_t>(std::clamp<int64_t>(read.integer("width", 4), 0, 10'000)), ' ');
  bool blank = read.flag("blank", false);
  std::vector<std::string> lines = split_lines(text(input) + "\n");  // a newline at the end stays one
  std::string out = read.flag("first", false) ? space : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += "\n" + (blank || !lines[i].empty() ? space : "");
    out += lines[i];
  }
  return out;
}

Value replaced(const Value& input, const Arguments& given) {
  ArgumentReader read("replace", given, {"old", "new", "count"});
  const Value* count = read.find("count");
  int64_t limit = count == nullptr || count->is_none() ? -1 : to_integer(*count, "count");
  return replace_all(text(input), text(read.required("old")), text(read.required("new")), limit);
}

template <class Number>
const char* parsed(const std::string& digits, Number& value) {
  const char* first = digits.data() + (digits.starts_with('+') ? 1 : 0);
  auto [end, error] = std::from_chars(first, digits.data() + digits.size(), value);
  return error == std::errc() && end == digits.data() + digits.size() && !digits.empty() ? end : nullptr;
}

Value to_int(const Value& input, const Arguments& given) {
  ArgumentReader read("int", given, {"default", "base"});
  const Value* otherwise = read.find("default");
  Value fallback = otherwise != nullptr ? *otherwise : Value(int64_t{0});
  if (read.integer("base", 10) != 10) throw Fault("int with another base than 10 is not supported");
  if (input.is_undefined()) throw Fault(fmt::format("'{}' is undefined", input.as<Value::Undefined>()->name));
  double number = 0;
  if (input.is_integer()) return to_integer(input, "");
  if (const std::string* s = input.string()) {
    std::string digits = strip(*s, true, true);
    int64_t whole = 0;
    if (parsed(digits, whole) != nullptr) return whole;
    if (parsed(digits, number) == nullptr) return fallback;
  } else if (input.is_number()) {
    number = to_double(input);
  } else {
    return fallback;
  }
  if (!(std::fabs(number) < 9.2e18)) return fallback;
  return static_cast<int64_t>(number);
}

Value to_float(const Value& input, const Arguments& given) {
  ArgumentReader read("float", given, {"default"});
  const Value* otherwise = read.find("default");
  double number = 0;
  if (input.is_number()) return to_double(input);
  if (input.string() != nullptr && parsed(strip(*input.string(), true, true), number) != nullptr) return number;
  return otherwise != nullptr ? *otherwise : Value(0.0);
}

Value rounded(const Value& input, const Arguments& given) {
  ArgumentReader read("round", given, {"precision", "method"});
  std::string method = read.find("method") == nullptr ? "common" : read.text_of("method");
  if (!input.is_number()) throw Fault(fmt::format("round takes a number, not {}", type_name(input)));
  if (method != "common" && method != "ceil" && method != "floor")
    throw Fault(fmt::format("round has no method '{}'; it has common, ceil and floor", method));
  int64_t places = read.integer("precision", 0);
  double scale = std::pow(10.0, static_cast<double>(places)), scaled = to_double(input) * scale;
  if (method == "ceil") return std::ceil(scaled) / scale;
  if (method == "floor") return std::floor(scaled) / scale;
  if (places == 0) return std::nearbyint(scaled);
  // Through the shortest text with as many digits, as Python rounds.
  return places > 0 && places < 18 ? std::stod(fmt::format("{:.{}f}", to_double(input), places))
                                   : std::nearbyint(scaled) / scale;
}

Value json_text(const Value& input, const Arguments& given) {
  ArgumentReader read("tojson", given, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = read.flag("ensure_ascii", false);
  style.sorted = read.flag("sort_keys", false);
  if (const Value* indent = read.find("indent"); indent != nullptr && !indent->is_none())
    style.indent =
        indent->string() != nullptr
            ? *indent->string()
            : std::string(static_cast<size_t>(std::clamp<int64_t>(to_integer(*indent, "indent"), 0, 64)), ' ');
  if (style.indent) style.between = ",";
  if (const Value* marks = read.find("separators"); marks != nullptr && !marks->is_none()) {
    List pair = elements(*marks);
    if (pair.size() != 2 || pair[0].string() == nullptr || pair[1].string() == nullptr)
      throw Fault("the separators of tojson are two texts");
    style.between = *pair[0].string();
    style.after_key = *pair[1].string();
  }
  return to_json(input, style);
}

Value absolute(const Value& input) {
  if (input.is<double>()) return std::fabs(to_double(input));
  int64_t number = to_integer(input, "what abs gets");
  return number < 0 ? binary("-", int64_t{0}, number) : Value(number);
}

Value words(const Value& input) {
  std::string all = text(input);
  int64_t count = 0;
  for (const std::string& part : split(all, nullptr, -1)) count += part.empty() ? 0 : 1;
  return count;
}

using Plain = Value (*)(const Value&);
const std::map<std::string_view, Plain>& plain_filters() {
  static const std::map<std::string_view, Plain> all = {
      {"abs", absolute},
      {"capitalize", [](const Value& v) { return Value(capitalize(text(v))); }},
      {"e", [](const Value& v) { return added(Value::markup(""), v); }},
      {"escape", [](const Value& v) { return added(Value::markup(""), v); }},
      {"count", [](const Value& v) { return Value(length(v)); }},
      {"length", [](const Value& v) { return Value(length(v)); }},
      {"list", [](const Value& v) { return Value::list(elements(v)); }},
      {"lower", [](const Value& v) { return Value(to_lower(text(v))); }},
      {"safe", [](const Value& v) { return Value::markup(text(v)); }},
      {"string", [](const Value& v) { return Value(text(v)); }},
      {"title", [](const Value& v) { return Value(title_case(text(v))); }},
      {"upper", [](const Value& v) { return Value(to_upper(text(v))); }},
      {"wordcount", words},
  };
  return all;
}

const std::map<std::string_view, Filter>& filters_with_arguments() {
  static const std::map<std::string_view, Filter> all = {
      {"d", or_default},     {"default", or_default}, {"float", to_float},   {"indent", indented}, {"int", to_int},
      {"replace", replaced}, {"round", rounded},      {"tojson", json_text}, {"trim", trimmed},
  };
  return all;
}

}  // namespace

Value apply_filter(std::string_view name, const Value& input, const Arguments& given) {
  if (auto plain = plain_filters().find(name); plain != plain_filters().end()) {
    ArgumentReader(name, given, {});
    return plain->second(input);
  }
  if (auto found = filters_with_arguments().find(name); found != filters_with_arguments().end())
    return found->second(input, given);
  if (Filter found = list_filter(name)) return found(input, given);
  throw Fault(fmt::format("the filter '{}' is not supported", name));
}

}  // namespace fk::jinja
