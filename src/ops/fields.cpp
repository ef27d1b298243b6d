#include "ops/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "core/error.h"

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

[[noreturn]] void throw_field_type(std::string_view name) {
  throw Error("The constructor argument '{}' has a value of the wrong type.", name);
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

void FieldWriter::add(std::string_view name, FieldValue value) { to_.push_back({std::string(name), std::move(value)}); }
void FieldWriter::operator()(std::string_view name, bool member) { add(name, member); }
void FieldWriter::operator()(std::string_view name, int64_t member) { add(name, member); }
void FieldWriter::operator()(std::string_view name, double member) { add(name, member); }
void FieldWriter::operator()(std::string_view name, const std::string& member) { add(name, member); }
void FieldWriter::operator()(std::string_view name, const std::vector<int64_t>& member) { add(name, member); }
void FieldWriter::operator()(std::string_view name, const std::vector<uint8_t>& member) {
  add(name, std::vector<int64_t>(member.begin(), member.end()));
}
void FieldWriter::operator()(std::string_view name, DType member) { add(name, std::string(dtype_name(member))); }

const FieldValue* FieldReader::take(std::string_view name) {
  const FieldValue* found = nullptr;
  for (const Field& f : from_) {
    if (f.name != name) continue;
    if (found == nullptr) ++used_;  // a second one stays unused, which is an error
    found = &f.value;
  }
  return found;
}

template <class M>
void FieldReader::assign(std::string_view name, M& member) {
  const FieldValue* value = take(name);
  if (value == nullptr) return;
  if (!std::holds_alternative<M>(*value)) throw_field_type(name);
  member = std::get<M>(*value);
}

void FieldReader::operator()(std::string_view name, bool& member) { assign(name, member); }
void FieldReader::operator()(std::string_view name, int64_t& member) { assign(name, member); }
void FieldReader::operator()(std::string_view name, std::string& member) { assign(name, member); }
void FieldReader::operator()(std::string_view name, std::vector<int64_t>& member) { assign(name, member); }

void FieldReader::operator()(std::string_view name, double& member) {
  const FieldValue* value = take(name);
  if (value == nullptr) return;
  if (const auto* integer = std::get_if<int64_t>(value))
    member = static_cast<double>(*integer);
  else if (const auto* real = std::get_if<double>(value))
    member = *real;
  else
    throw_field_type(name);
}

void FieldReader::operator()(std::string_view name, std::vector<uint8_t>& member) {
  const FieldValue* value = take(name);
  if (value == nullptr) return;
  const auto* list = std::get_if<std::vector<int64_t>>(value);
  if (list == nullptr) throw_field_type(name);
  member.assign(list->begin(), list->end());
}

void FieldReader::operator()(std::string_view name, DType& member) {
  const FieldValue* value = take(name);
  if (value == nullptr) return;
  const auto* text = std::get_if<std::string>(value);
  std::optional<DType> dtype = text != nullptr ? dtype_from_name(*text) : std::nullopt;
  if (!dtype) throw Error("The constructor argument '{}' must be a dtype such as bf16 or f32.", name);
  member = *dtype;
}

const Fields* FieldReader::nested(std::string_view name) {
  const FieldValue* value = take(name);
  if (value == nullptr) return nullptr;
  if (!std::holds_alternative<Fields>(*value)) throw_field_type(name);
  return &std::get<Fields>(*value);
}

namespace detail {

void throw_unknown_field(const Fields& fields, const Fields& known) {
  std::vector<std::string> names;
  for (const Field& f : known) names.push_back(f.name);
  for (const Field& f : fields)
    if (find_field(known, f.name) == nullptr)
      throw Error("There is no constructor argument '{}'; there are {}.", f.name, fmt::join(names, ", "));
  throw Error("A constructor argument is given twice in {}.", fields_text(fields));
}

}  // namespace detail
}  // namespace fk
