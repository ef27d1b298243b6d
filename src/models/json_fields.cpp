#include "models/json_fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "models/in_quotes.h"

namespace fk {

JsonFields::JsonFields(const Json& object, std::string what) : object_(&object), what_(std::move(what)) {
  if (!object.is_object()) throw Error("{} is not a JSON object.", what_);
}

void JsonFields::record(std::string_view key) const {
  if (asked_ != nullptr) asked_->emplace(key);
}

bool JsonFields::has_key(std::string_view key) const {
  record(key);
  return object_->contains(key);
}

bool JsonFields::empty() const { return object_->empty(); }

const Json* JsonFields::find(std::string_view key) const {
  record(key);
  auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool JsonFields::is_null(std::string_view key) const {
  record(key);
  auto found = object_->find(key);
  return found != object_->end() && found->is_null();
}

void JsonFields::refuse(std::string_view key, const std::string& wanted, const Json& found) const {
  std::string text = found.is_structured() ? (found.is_array() ? "a list" : "an object") : in_quotes(found.dump());
  throw Error("{}: {} must be {}, and is {}.", what_, key, wanted, text);
}

void JsonFields::refuse_other_keys(std::initializer_list<std::string_view> known) const {
  for (const auto& [key, value] : object_->items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw Error("{} has {}, which is not supported there; {} are.", what_, in_quotes(key), fmt::join(known, ", "));
}

std::optional<int64_t> JsonFields::integer(std::string_view key, int64_t least, int64_t most) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  // An unsigned number beyond int64 would turn negative.
  bool fits = value->is_number_integer() && !(value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX);
  if (!fits || value->get<int64_t>() < least || value->get<int64_t>() > most)
    refuse(key, fmt::format("a whole number from {} to {}", least, most), *value);
  return value->get<int64_t>();
}

std::optional<double> JsonFields::real(std::string_view key, double least, double most) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !(value->get<double>() >= least && value->get<double>() <= most))
    refuse(key, fmt::format("a number from {} to {}", least, most), *value);
  return value->get<double>();
}

std::optional<bool> JsonFields::boolean(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse(key, "true or false", *value);
  return value->get<bool>();
}

std::optional<std::string> JsonFields::string(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse(key, "a string", *value);
  return value->get<std::string>();
}

std::optional<JsonFields> JsonFields::object(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) refuse(key, "an object", *value);
  return JsonFields(*value, fmt::format("{} in {}", key, what_));
}

}  // namespace fk
