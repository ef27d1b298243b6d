#include "models/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/jinja/python_text.h"
#include "models/unicode.h"

namespace fk::jinja {

const Value* Dict::find(const Value& key) const {
  for (const auto& [k, v] : items_)
    if (equal(k, key)) return &v;
  return nullptr;
}

const Value* Dict::find(std::string_view key) const {
  for (const auto& [k, v] : items_)
    if (k.string() != nullptr && *k.string() == key) return &v;
  return nullptr;
}

void Dict::set(Value key, Value value) {
  if (key.items() != nullptr && !key.as<Value::Sequence>()->is_tuple) throw Fault("a list cannot be the key of a dict");
  if (key.entries() != nullptr) throw Fault("a dict cannot be the key of a dict");
  for (auto& [k, v] : items_)
    if (equal(k, key)) {
      v = std::move(value);
      return;
    }
  items_.emplace_back(std::move(key), std::move(value));
}

std::string_view type_name(const Value& v) {
  if (v.is_undefined()) return "undefined";
  if (v.is_none()) return "None";
  if (v.is<bool>()) return "bool";
  if (v.is<int64_t>()) return "int";
  if (v.is<double>()) return "float";
  if (v.string() != nullptr) return "str";
  if (v.items() != nullptr) return v.as<Value::Sequence>()->is_tuple ? "tuple" : "list";
  if (v.entries() != nullptr) return "dict";
  if (v.is<Value::Generator>()) return "generator";
  if (v.is<Value::Namespace>()) return "namespace";
  return "function";
}

bool truthy(const Value& v) {
  if (v.is_undefined() || v.is_none()) return false;
  if (const bool* b = v.as<bool>()) return *b;
  if (v.is_number()) return to_double(v) != 0;
  if (v.string() != nullptr) return !v.string()->empty();
  if (v.items() != nullptr) return !v.items()->empty();
  if (v.entries() != nullptr) return !v.entries()->items().empty();
  return true;
}

bool equal(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) return to_integer(a, "") == to_integer(b, "");
  if (a.is_number() && b.is_number()) return to_double(a) == to_double(b);
  if (a.string() != nullptr && b.string() != nullptr) return *a.string() == *b.string();
  if (a.is_undefined() || a.is_none()) return a.is_undefined() ? b.is_undefined() : b.is_none();
  if (a.items() != nullptr && b.items() != nullptr)
    return type_name(a) == type_name(b) &&
           std::equal(a.items()->begin(), a.items()->end(), b.items()->begin(), b.items()->end(), equal);
  if (a.entries() != nullptr && b.entries() != nullptr) {
    if (a.entries()->items().size() != b.entries()->items().size()) return false;
    return std::all_of(a.entries()->items().begin(), a.entries()->items().end(), [&](const auto& item) {
      const Value* other = b.entries()->find(item.first);
      return other != nullptr && equal(item.second, *other);
    });
  }
  if (const auto* n = a.as<Value::Namespace>())
    return b.is<Value::Namespace>() && n->entries == b.as<Value::Namespace>()->entries;
  if (const auto* f = a.as<Value::Callable>())
    return b.is<Value::Callable>() && f->function == b.as<Value::Callable>()->function;
  return false;
}

bool less(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) return to_integer(a, "") < to_integer(b, "");
  if (a.is_number() && b.is_number()) return to_double(a) < to_double(b);
  // Byte order of UTF-8 is the order of code points.
  if (a.string() != nullptr && b.string() != nullptr) return *a.string() < *b.string();
  if (a.items() != nullptr && b.items() != nullptr && type_name(a) == type_name(b)) {
    const List &x = *a.items(), &y = *b.items();
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      if (!equal(x[i], y[i])) return less(x[i], y[i]);
    return x.size() < y.size();
  }
  throw Fault(fmt::format("{} and {} have no order", type_name(a), type_name(b)));
}

bool contains(const Value& container, const Value& item) {
  if (const std::string* s = container.string()) {
    if (item.string() == nullptr)
      throw Fault(fmt::format("'in' looks for a str in a str, not for {}", type_name(item)));
    return s->find(*item.string()) != s->npos;
  }
  if (container.entries() != nullptr) return container.entries()->find(item) != nullptr;
  List all = elements(container);
  return std::any_of(all.begin(), all.end(), [&](const Value& v) { return equal(v, item); });
}

int64_t length(const Value& v) {
  if (v.is_undefined()) return 0;
  if (v.string() != nullptr) return count_characters(*v.string());
  if (v.items() != nullptr) return static_cast<int64_t>(v.items()->size());
  if (v.entries() != nullptr) return static_cast<int64_t>(v.entries()->items().size());
  throw Fault(fmt::format("{} has no length", type_name(v)));
}

List elements(const Value& v) {
  List all;
  if (v.is_undefined()) return all;
  if (v.items() != nullptr) return *v.items();
  if (const auto* g = v.as<Value::Generator>()) return *g->items;
  if (v.entries() != nullptr) {
    for (const auto& item : v.entries()->items()) all.push_back(item.first);
    return all;
  }
  if (const std::string* s = v.string()) {
    for (size_t at = 0; at < s->size();) {
      size_t size = unicode::decode_at(*s, at).size;
      all.emplace_back(s->substr(at, size));
      at += size;
    }
    return all;
  }
  throw Fault(fmt::format("{} cannot be iterated over", type_name(v)));
}

std::string text(const Value& v) {
  if (v.string() != nullptr) return *v.string();
  if (v.is_undefined()) return "";
  return repr(v);
}

std::string repr(const Value& v) {
  if (v.is_undefined()) return "Undefined";
  if (v.is_none()) return "None";
  if (const bool* b = v.as<bool>()) return *b ? "True" : "False";
  if (const int64_t* i = v.as<int64_t>()) return fmt::format("{}", *i);
  if (const double* d = v.as<double>()) return python_float(*d);
  if (v.string() != nullptr) return python_quoted(*v.string());
  std::string all;
  auto add = [&](const std::string& one) { all += (all.empty() ? "" : ", ") + one; };
  if (v.items() != nullptr) {
    for (const Value& item : *v.items()) add(repr(item));
    if (!v.as<Value::Sequence>()->is_tuple) return "[" + all + "]";
    return "(" + all + (v.items()->size() == 1 ? ",)" : ")");
  }
  if (v.entries() != nullptr) {
    for (const auto& [key, value] : v.entries()->items()) add(repr(key) + ": " + repr(value));
    return "{" + all + "}";
  }
  throw Fault(fmt::format("a {} cannot be written as text", type_name(v)));
}

int64_t to_integer(const Value& v, std::string_view what) {
  if (const bool* b = v.as<bool>()) return *b ? 1 : 0;
  if (const int64_t* i = v.as<int64_t>()) return *i;
  throw Fault(fmt::format("{} must be an int, not {}", what, type_name(v)));
}

double to_double(const Value& v) {
  if (const double* d = v.as<double>()) return *d;
  return static_cast<double>(to_integer(v, "a number"));
}

}  // namespace fk::jinja
