#include "ops/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fk {
namespace {

std::string value_text(const FieldValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using V = std::remove_cvref_t<decltype(v)>;
        if constexpr (std::is_same_v<V, Fields>)
          return fmt::format("{{{}}}", fields_text(v));
        else if constexpr (std::is_same_v<V, std::vector<int64_t>>)
          return fmt::format("[{}]", fmt::join(v, ", "));
        else
          return fmt::format("{}", v);
      },
      value);
}

}  // namespace

bool operator==(const Field& a, const Field& b) { return a.name == b.name && a.value == b.value; }

const FieldValue* find_field(const Fields& fields, std::string_view name) {
  for (const Field& f : fields)
    if (f.name == name) return &f.value;
  return nullptr;
}

bool set_field(Fields& fields, std::string_view name, FieldValue value) {
  for (Field& f : fields) {
    if (f.name != name) continue;
    f.value = std::move(value);
    return true;
  }
  return false;
}

std::string fields_text(const Fields& fields) {
  std::string text;
  for (const Field& f : fields) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", f.name, value_text(f.value));
  return text;
}

namespace detail {

void throw_field_type(std::string_view name) {
  throw Error("The constructor argument '{}' has a value of the wrong type.", name);
}

void throw_unknown_field(std::string_view name, const Fields& known) {
  std::vector<std::string> names;
  for (const Field& f : known) names.push_back(f.name);
  throw Error("There is no constructor argument '{}'; there are {}.", name, fmt::join(names, ", "));
}

DType dtype_field(std::string_view name, const FieldValue& value) {
  if (const auto* text = std::get_if<std::string>(&value))
    if (auto dtype = dtype_from_name(*text)) return *dtype;
  throw Error("The constructor argument '{}' must be a dtype such as bf16 or f32.", name);
}

}  // namespace detail
}  // namespace fk
