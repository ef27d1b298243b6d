#include "serve/fields.h"

#include <fmt/format.h>

#include <cmath>

#include "core/error.h"
#include "core/json.h"
#include "serve/api_error.h"

namespace fk {
namespace {

[[noreturn]] void wrong(std::string_view name, std::string_view must) {
  throw ApiError(400, fmt::format("'{}' must be {}.", name, must), std::string(name), "invalid_value");
}

std::vector<int64_t> ids_of(const Json& list, std::string_view name) {
  std::vector<int64_t> ids;
  ids.reserve(list.size());
  for (const Json& value : list) {
    std::optional<int64_t> id = whole_number(value);
    if (!id || *id < 0) wrong(name, "a list of token ids, which are whole numbers from 0 on");
    ids.push_back(*id);
  }
  return ids;
}

}  // namespace

Json parse_body(std::string_view body) {
  if (body.empty()) throw ApiError(400, "The body is empty; send a JSON object.");
  try {
    Json json = parse_json(body, "The body");
    if (json.is_object()) return json;
  } catch (const Error& e) {
    throw ApiError(400, e.what(), "", "invalid_json");
  }
  throw ApiError(400, "The body must be a JSON object.");
}

std::optional<int64_t> whole_number(const Json& value) {
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX}) return std::nullopt;
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  auto number = value.get<double>();
  constexpr double kExact = 9007199254740992.0;  // 2^53: whole numbers up to it are exact
  if (!(std::abs(number) <= kExact) || number != std::floor(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

const Json* Fields::find(std::string_view name) const {
  auto found = object_->find(std::string(name));
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool Fields::boolean(std::string_view name, bool otherwise) const {
  const Json* value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) wrong(name, "true or false");
  return value->get<bool>();
}

double Fields::number(std::string_view name, double otherwise, double least, double most) const {
  const Json* value = find(name);
  if (value == nullptr) return otherwise;
  auto number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= least && number <= most)) wrong(name, fmt::format("a number from {} to {}", least, most));
  return number;
}

std::optional<int64_t> Fields::whole(std::string_view name, int64_t least, int64_t most) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  std::optional<int64_t> number = whole_number(*value);
  if (!number || *number < least || *number > most)
    wrong(name, most == INT64_MAX ? fmt::format("a whole number of at least {}", least)
                                  : fmt::format("a whole number from {} to {}", least, most));
  return number;
}

int64_t Fields::whole(std::string_view name, int64_t otherwise, int64_t least, int64_t most) const {
  return whole(name, least, most).value_or(otherwise);
}

std::optional<std::string> Fields::text(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) wrong(name, "a text");
  return value->get<std::string>();
}

std::vector<std::string> Fields::texts(std::string_view name, size_t most) const {
  const Json* value = find(name);
  if (value == nullptr) return {};
  std::vector<std::string> all;
  if (value->is_string()) all.push_back(value->get<std::string>());
  bool good = value->is_string() || (value->is_array() && value->size() <= most);
  if (good && value->is_array())
    for (const Json& one : *value) {
      good = good && one.is_string();
      if (one.is_string()) all.push_back(one.get<std::string>());
    }
  for (const std::string& text : all) good = good && !text.empty();
  if (!good) wrong(name, fmt::format("a text or a list of at most {} texts, none of them empty", most));
  return all;
}

std::vector<int64_t> Fields::token_ids(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return {};
  if (!value->is_array()) wrong(name, "a list of token ids");
  return ids_of(*value, name);
}

void Fields::refuse(std::string_view name, std::string_view why) const {
  const Json* value = find(name);
  bool harmless = value == nullptr || *value == false || *value == 0 ||
                  ((value->is_array() || value->is_object()) && value->empty()) ||
                  (value->is_string() && value->get_ref<const std::string&>().empty());
  if (!harmless) refuse_any(name, why);
}

void Fields::refuse_any(std::string_view name, std::string_view why) const {
  if (find(name) != nullptr)
    throw ApiError(400, fmt::format("'{}' is not supported: {}", name, why), std::string(name), "unsupported_value");
}

Inputs read_inputs(const Json& object, std::string_view name, size_t most) {
  const Json* value = Fields(object).find(name);
  if (value == nullptr) throw ApiError(400, fmt::format("'{}' is missing.", name), std::string(name), "missing_field");
  constexpr std::string_view kForms = "a text, a list of texts, a list of token ids, or a list of such lists";
  if (value->is_string()) return {{value->get<std::string>()}, {}};
  if (!value->is_array()) wrong(name, kForms);
  if (value->empty()) wrong(name, fmt::format("not empty: {}", kForms));
  if (value->front().is_number()) return {{}, {ids_of(*value, name)}};
  if (value->size() > most) wrong(name, fmt::format("a list of at most {} entries", most));
  Inputs inputs;
  for (const Json& one : *value) {
    if (one.is_string() && inputs.ids.empty())
      inputs.texts.push_back(one.get<std::string>());
    else if (one.is_array() && inputs.texts.empty())
      inputs.ids.push_back(ids_of(one, name));
    else
      wrong(name, kForms);
  }
  return inputs;
}

}  // namespace fk
