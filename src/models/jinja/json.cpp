#include "models/jinja/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/json.h"
#include "models/jinja/python_text.h"
#include "models/unicode.h"

namespace fk::jinja {
namespace {

class Writer {
 public:
  explicit Writer(const JsonStyle& style) : style_(style) {}

  void write(const Value& v) {
    if (v.string() != nullptr) return string(*v.string());
    if (v.items() != nullptr) {
      if (v.items()->empty()) return add("[]");
      open('[');
      for (const Value& item : *v.items()) {
        next();
        write(item);
      }
      return close(']');
    }
    if (v.entries() != nullptr) return object(*v.entries());
    add(plain(v));
  }

  std::string take() { return std::move(out_); }

 private:
  static std::string plain(const Value& v) {
    if (v.is_none()) return "null";
    if (const bool* b = v.as<bool>()) return *b ? "true" : "false";
    if (v.is_integer()) return fmt::format("{}", to_integer(v, ""));
    if (const double* d = v.as<double>()) {
      if (std::isnan(*d)) return "NaN";
      if (std::isinf(*d)) return *d > 0 ? "Infinity" : "-Infinity";
      return python_float(*d);
    }
    if (v.is_undefined())
      throw Fault(fmt::format("'{}' is undefined and cannot be written as JSON", v.as<Value::Undefined>()->name));
    throw Fault(fmt::format("a {} cannot be written as JSON", type_name(v)));
  }

  void object(const Dict& entries) {
    if (entries.items().empty()) return add("{}");
    std::vector<const std::pair<Value, Value>*> order;
    for (const auto& entry : entries.items()) order.push_back(&entry);
    if (style_.sorted)
      std::stable_sort(order.begin(), order.end(),
                       [](const auto* a, const auto* b) { return less(a->first, b->first); });
    open('{');
    for (const auto* entry : order) {
      next();
      string(entry->first.string() != nullptr ? *entry->first.string() : plain(entry->first));
      add(style_.after_key);
      write(entry->second);
    }
    close('}');
  }

  void open(char bracket) {
    out_ += bracket;
    ++depth_;
    first_ = true;
  }
  void next() {
    if (!first_) add(style_.between);
    first_ = false;
    new_line();
  }
  void close(char bracket) {
    --depth_;
    new_line();
    out_ += bracket;
    first_ = false;
  }
  void new_line() {
    if (!style_.indent) return;
    out_ += '\n';
    for (int i = 0; i < depth_; ++i) out_ += *style_.indent;
  }
  void add(std::string_view text) { out_ += text; }

  void string(const std::string& text) {
    constexpr std::string_view kMarks = "\"\\\n\r\t\f\b", kNames = "\"\\nrtfb";
    out_ += '"';
    for (size_t at = 0; at < text.size();) {
      auto [c, size] = unicode::decode_at(text, at);
      if (size_t i = c < 0x80 ? kMarks.find(static_cast<char>(c)) : kMarks.npos; i != kMarks.npos) {
        out_ += {'\\', kNames[i]};
      } else if (c < 0x20 || (style_.ascii && c > 0x7E && c < 0x10000)) {
        out_ += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
      } else if (style_.ascii && c >= 0x10000) {
        uint32_t rest = static_cast<uint32_t>(c) - 0x10000;
        out_ += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
      } else {
        out_ += text.substr(at, size);
      }
      at += size;
    }
    out_ += '"';
  }

  const JsonStyle& style_;
  std::string out_;
  int depth_ = 0;
  bool first_ = true;
};

}  // namespace

std::string to_json(const Value& value, const JsonStyle& style) {
  Writer writer(style);
  writer.write(value);
  return writer.take();
}

Value from_json(const Json& json) {
  if (json.is_null()) return Value::none();
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX) return json.get<double>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    List items;
    for (const Json& item : json) items.push_back(from_json(item));
    return Value::list(std::move(items));
  }
  Dict entries;
  for (const auto& [key, value] : json.items()) entries.set(key, from_json(value));
  return Value::dict(std::move(entries));
}

}  // namespace fk::jinja
