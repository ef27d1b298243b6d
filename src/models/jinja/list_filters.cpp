#include "models/jinja/list_filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>

#include "models/jinja/arguments.h"
#include "models/jinja/filters.h"
#include "models/jinja/python_text.h"
#include "models/jinja/runtime.h"
#include "models/jinja/tests.h"

namespace fk::jinja {
namespace {

// "name.0.other" or a number: what a filter's argument `attribute` selects of each element.
Value at_path(Value of, const Value& path) {
  if (path.is_integer()) return item(of, path);
  if (path.string() == nullptr)
    throw Fault(fmt::format("an attribute must be a str or an int, not {}", type_name(path)));
  std::string_view point = ".";
  for (const std::string& part : split(*path.string(), &point, -1)) {
    int64_t index = 0;
    auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    bool is_index = error == std::errc() && end == part.data() + part.size();
    of = is_index ? item(of, index) : item(of, part);
  }
  return of;
}

// What elements are compared by: an attribute of them where one is named, text in lower case unless asked otherwise.
class Key {
 public:
  Key(const Value* attribute, bool case_sensitive) : attribute_(attribute), case_sensitive_(case_sensitive) {}
  explicit Key(const ArgumentReader& read) : Key(read.find("attribute"), read.flag("case_sensitive", false)) {}

  Value operator()(const Value& of) const {
    Value key = attribute_ == nullptr || attribute_->is_none() ? of : at_path(of, *attribute_);
    return !case_sensitive_ && key.string() != nullptr ? Value(to_lower(*key.string())) : key;
  }

 private:
  const Value* attribute_;
  bool case_sensitive_;
};

template <class KeyOf>
List sorted(List all, const KeyOf& key_of, bool reverse) {
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& v : all) {
    Value key = key_of(v);
    keyed.emplace_back(std::move(key), std::move(v));
  }
  // Python keeps the order of equal ones in both directions.
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reverse ? less(b.first, a.first) : less(a.first, b.first);
  });
  List out;
  for (auto& [key, v] : keyed) out.push_back(std::move(v));
  return out;
}

Value sort(const Value& input, const Arguments& given) {
  ArgumentReader read("sort", given, {"reverse", "case_sensitive", "attribute"});
  return Value::list(sorted(elements(input), Key(read), read.flag("reverse", false)));
}

Value dictsort(const Value& input, const Arguments& given) {
  ArgumentReader read("dictsort", given, {"case_sensitive", "by", "reverse"});
  if (input.entries() == nullptr) throw Fault(fmt::format("dictsort takes a dict, not {}", type_name(input)));
  std::string by = read.find("by") == nullptr ? "key" : read.text_of("by");
  if (by != "key" && by != "value") throw Fault("dictsort sorts by 'key' or by 'value'");
  List pairs;
  for (const auto& [key, value] : input.entries()->items()) pairs.push_back(Value::tuple({key, value}));
  Value place(int64_t{by == "key" ? 0 : 1});
  return Value::list(
      sorted(std::move(pairs), Key(&place, read.flag("case_sensitive", false)), read.flag("reverse", false)));
}

Value unique(const Value& input, const Arguments& given) {
  ArgumentReader read("unique", given, {"case_sensitive", "attribute"});
  Key key_of(read);
  List kept, seen;
  for (const Value& v : elements(input)) {
    Value key = key_of(v);
    if (std::any_of(seen.begin(), seen.end(), [&](const Value& s) { return equal(s, key); })) continue;
    seen.push_back(std::move(key));
    kept.push_back(v);
  }
  return Value::generator(std::move(kept));
}

Value extreme(std::string_view name, const Value& input, const Arguments& given, bool largest) {
  ArgumentReader read(name, given, {"case_sensitive", "attribute"});
  Key key_of(read);
  List all = elements(input);
  if (all.empty()) return Value::undefined("no aggregated item, sequence was empty");
  size_t best = 0;
  for (size_t i = 1; i < all.size(); ++i)
    if (largest ? less(key_of(all[best]), key_of(all[i])) : less(key_of(all[i]), key_of(all[best]))) best = i;
  return all[best];
}

Value join(const Value& input, const Arguments& given) {
  ArgumentReader read("join", given, {"d", "attribute"});
  std::string between = read.find("d") == nullptr ? "" : text(read.required("d")), out;
  const Value* attribute = read.find("attribute");
  bool first = true;
  for (const Value& v : elements(input)) {
    out += (first ? "" : between) + text(attribute == nullptr || attribute->is_none() ? v : at_path(v, *attribute));
    first = false;
  }
  return out;
}

Value items(const Value& input, const Arguments& given) {
  ArgumentReader("items", given, {});
  List pairs;
  if (input.is_undefined()) return Value::generator({});
  if (input.entries() == nullptr) throw Fault(fmt::format("items takes a dict, not {}", type_name(input)));
  for (const auto& [key, value] : input.entries()->items()) pairs.push_back(Value::tuple({key, value}));
  return Value::generator(std::move(pairs));
}

Value end_of(std::string_view name, const Value& input, const Arguments& given, bool first) {
  ArgumentReader(name, given, {});
  List all = elements(input);
  if (all.empty()) return Value::undefined(fmt::format("No {} item, sequence was empty.", name));
  return first ? all.front() : all.back();
}

Value reversed(const Value& input, const Arguments& given) {
  ArgumentReader("reverse", given, {});
  List all = elements(input);
  std::reverse(all.begin(), all.end());
  if (input.string() == nullptr) return Value::generator(std::move(all));
  std::string out;
  for (const Value& v : all) out += *v.string();
  return out;
}

Value sum(const Value& input, const Arguments& given) {
  ArgumentReader read("sum", given, {"attribute", "start"});
  const Value *attribute = read.find("attribute"), *start = read.find("start");
  Value total = start != nullptr ? *start : Value(int64_t{0});
  for (const Value& v : elements(input))
    total = binary("+", total, attribute == nullptr || attribute->is_none() ? v : at_path(v, *attribute));
  return total;
}

Value batch(const Value& input, const Arguments& given) {
  ArgumentReader read("batch", given, {"linecount", "fill_with"});
  int64_t size = to_integer(read.required("linecount"), "linecount");
  if (size < 1) throw Fault("the batches of batch must have at least one element");
  const Value* fill = read.find("fill_with");
  List all = elements(input), out, part;
  for (const Value& v : all) {
    if (static_cast<int64_t>(part.size()) == size) out.push_back(Value::list(std::exchange(part, {})));
    part.push_back(v);
  }
  if (!part.empty()) {
    if (fill != nullptr && !fill->is_none() && size <= 100'000)
      while (static_cast<int64_t>(part.size()) < size) part.push_back(*fill);
    out.push_back(Value::list(std::move(part)));
  }
  return Value::generator(std::move(out));
}

// Some filters take none, zero and false for an empty list.
List elements_if_any(const Value& input) { return truthy(input) ? elements(input) : List(); }

// map(attribute="a.b", default=...) or map("filter", its arguments...).
Value map(const Value& input, const Arguments& given) {
  std::function<Value(const Value&)> apply;
  Arguments rest = given;
  if (given.positional.empty()) {
    ArgumentReader read("map", given, {"attribute", "default"});
    apply = [attribute = read.required("attribute"),
             otherwise = read.find("default") != nullptr ? *read.find("default") : Value()](const Value& v) {
      Value found = at_path(v, attribute);
      return found.is_undefined() && !otherwise.is_undefined() ? otherwise : found;
    };
  } else {
    if (given.positional[0].string() == nullptr) throw Fault("map wants the name of a filter");
    rest.positional.erase(rest.positional.begin());
    apply = [name = *given.positional[0].string(), &rest](const Value& v) { return apply_filter(name, v, rest); };
  }
  List out;
  for (const Value& v : elements_if_any(input)) out.push_back(apply(v));
  return Value::generator(std::move(out));
}

// select(test, arguments...), selectattr(attribute, test, arguments...) and their opposites.
Value select(std::string_view name, const Value& input, const Arguments& given, bool by_attribute, bool wanted) {
  Arguments rest = given;
  Value attribute;
  auto take_first = [&] {
    Value first = rest.positional.front();
    rest.positional.erase(rest.positional.begin());
    return first;
  };
  if (by_attribute) {
    if (rest.positional.empty()) throw Fault(fmt::format("{} wants the name of an attribute", name));
    attribute = take_first();
  }
  Value test;
  if (!rest.positional.empty()) {
    test = take_first();
    if (test.string() == nullptr) throw Fault(fmt::format("{} wants the name of a test", name));
  }
  List kept;
  for (const Value& v : elements_if_any(input)) {
    Value subject = by_attribute ? at_path(v, attribute) : v;
    bool holds = test.is_undefined() ? truthy(subject) : apply_test(*test.string(), subject, rest);
    if (holds == wanted) kept.push_back(v);
  }
  return Value::generator(std::move(kept));
}

}  // namespace

Filter list_filter(std::string_view name) {
  static const std::map<std::string_view, Filter> all = {
      {"batch", batch},
      {"dictsort", dictsort},
      {"first", [](const Value& v, const Arguments& a) { return end_of("first", v, a, true); }},
      {"items", items},
      {"join", join},
      {"last", [](const Value& v, const Arguments& a) { return end_of("last", v, a, false); }},
      {"map", map},
      {"max", [](const Value& v, const Arguments& a) { return extreme("max", v, a, true); }},
      {"min", [](const Value& v, const Arguments& a) { return extreme("min", v, a, false); }},
      {"reject", [](const Value& v, const Arguments& a) { return select("reject", v, a, false, false); }},
      {"rejectattr", [](const Value& v, const Arguments& a) { return select("rejectattr", v, a, true, false); }},
      {"reverse", reversed},
      {"select", [](const Value& v, const Arguments& a) { return select("select", v, a, false, true); }},
      {"selectattr", [](const Value& v, const Arguments& a) { return select("selectattr", v, a, true, true); }},
      {"sort", sort},
      {"sum", sum},
      {"unique", unique},
  };
  auto found = all.find(name);
  return found == all.end() ? nullptr : found->second;
}

}  // namespace fk::jinja
