// Value: what the expressions of a template compute with, as Python's values behave in Jinja.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace fk::jinja {

// An error inside a template; the renderer adds the template's name and the line.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Value;
using List = std::vector<Value>;

// In order of insertion, as in Python. Templates have small ones, so a search is linear.
class Dict {
 public:
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(Value key, Value value);
  const std::vector<std::pair<Value, Value>>& items() const { return items_; }

 private:
  std::vector<std::pair<Value, Value>> items_;
};

struct Arguments {
  List positional;
  std::vector<std::pair<std::string, Value>> named;
};
using Function = std::function<Value(const Arguments&)>;

class Value {
 public:
  struct Undefined {
    std::string name;  // what was not found
  };
  struct None {};
  // A text that went through `safe` or `escape`: what is added to it is escaped for HTML, as in Jinja.
  struct Markup {
    std::string text;
  };
  struct Sequence {
    std::shared_ptr<const List> items;
    bool is_tuple;
  };
  struct Mapping {
    std::shared_ptr<const Dict> entries;
  };
  // namespace(...): the only thing a template can change from an inner scope.
  struct Namespace {
    std::shared_ptr<Dict> entries;
  };
  // What filters like map and select give: it can be iterated over, but has no length and no index, and counts as true
  // even where nothing is in it.
  struct Generator {
    std::shared_ptr<const List> items;
  };
  struct Callable {
    std::string name;
    std::shared_ptr<const Function> function;
  };

  Value() : data_(Undefined{}) {}
  Value(bool v) : data_(v) {}
  Value(int64_t v) : data_(v) {}
  Value(double v) : data_(v) {}
  Value(std::string v) : data_(std::move(v)) {}
  Value(std::string_view v) : data_(std::string(v)) {}
  Value(const char* v) : data_(std::string(v)) {}
  static Value undefined(std::string_view name) { return Value(Data(Undefined{std::string(name)})); }
  static Value none() { return Value(Data(None{})); }
  static Value markup(std::string text) { return Value(Data(Markup{std::move(text)})); }
  static Value list(List items) { return sequence(std::move(items), false); }
  static Value tuple(List items) { return sequence(std::move(items), true); }
  static Value generator(List items) { return Value(Data(Generator{std::make_shared<const List>(std::move(items))})); }
  static Value dict(Dict entries) { return Value(Data(Mapping{std::make_shared<const Dict>(std::move(entries))})); }
  static Value name_space(Dict entries) { return Value(Data(Namespace{std::make_shared<Dict>(std::move(entries))})); }
  static Value function(std::string name, Function f) {
    return Value(Data(Callable{std::move(name), std::make_shared<const Function>(std::move(f))}));
  }

  template <class T>
  const T* as() const {
    return std::get_if<T>(&data_);
  }
  template <class T>
  bool is() const {
    return std::holds_alternative<T>(data_);
  }
  const std::string* string() const { return is<Markup>() ? &as<Markup>()->text : as<std::string>(); }
  const List* items() const { return is<Sequence>() ? as<Sequence>()->items.get() : nullptr; }
  const Dict* entries() const { return is<Mapping>() ? as<Mapping>()->entries.get() : nullptr; }
  bool is_undefined() const { return is<Undefined>(); }
  bool is_none() const { return is<None>(); }
  bool is_number() const { return is<bool>() || is<int64_t>() || is<double>(); }
  bool is_integer() const { return is<bool>() || is<int64_t>(); }  // as in Python, where True is 1

 private:
  using Data = std::variant<Undefined, None, bool, int64_t, double, std::string, Markup, Sequence, Generator, Mapping,
                            Namespace, Callable>;
  explicit Value(Data data) : data_(std::move(data)) {}
  static Value sequence(List items, bool is_tuple) {
    return Value(Data(Sequence{std::make_shared<const List>(std::move(items)), is_tuple}));
  }

  Data data_;
};

std::string_view type_name(const Value& v);  // as Python names it: str, int, list, ...
bool truthy(const Value& v);
bool equal(const Value& a, const Value& b);
bool less(const Value& a, const Value& b);  // Fault where Python cannot order the two
bool contains(const Value& container, const Value& item);
int64_t length(const Value& v);
std::string text(const Value& v);  // as str() in Python
std::string repr(const Value& v);  // as repr() in Python
// The elements of a list, the characters of a string, the keys of a dict. Fault for what cannot be iterated over.
List elements(const Value& v);
int64_t to_integer(const Value& v, std::string_view what);
double to_double(const Value& v);  // of a number

}  // namespace fk::jinja
