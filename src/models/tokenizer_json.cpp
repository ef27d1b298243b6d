#include "models/tokenizer_json.h"

#include <limits>
#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "models/in_quotes.h"

namespace fk {

JsonNode JsonNode::at(std::string_view key) const {
  if (!value_->is_object()) fail("an object");
  auto it = value_->find(key);
  if (it == value_->end()) throw Error("{} has no '{}'; the file is incomplete.", path_, key);
  return {*it, fmt::format("{}.{}", path_, key)};
}

std::optional<JsonNode> JsonNode::find(std::string_view key) const {
  if (!value_->is_object()) fail("an object");
  auto it = value_->find(key);
  if (it == value_->end() || it->is_null()) return std::nullopt;
  return JsonNode(*it, fmt::format("{}.{}", path_, key));
}

std::vector<JsonNode> JsonNode::items() const {
  if (!value_->is_array()) fail("an array");
  std::vector<JsonNode> out;
  for (const Json& item : *value_) out.emplace_back(item, fmt::format("{}[{}]", path_, out.size()));
  return out;
}

std::vector<std::pair<std::string, JsonNode>> JsonNode::members() const {
  if (!value_->is_object()) fail("an object");
  std::vector<std::pair<std::string, JsonNode>> out;
  for (auto it = value_->begin(); it != value_->end(); ++it)
    out.emplace_back(it.key(), JsonNode(it.value(), fmt::format("{}[{}]", path_, in_quotes(it.key()))));
  return out;
}

std::string JsonNode::string() const {
  if (!value_->is_string()) fail("a string");
  return value_->get<std::string>();
}

bool JsonNode::boolean() const {
  if (!value_->is_boolean()) fail("true or false");
  return value_->get<bool>();
}

int64_t JsonNode::integer() const {
  bool fits = value_->is_number_integer() &&
              (!value_->is_number_unsigned() ||
               value_->get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if (!fits) fail("an integer");
  return value_->get<int64_t>();
}

double JsonNode::number() const {
  if (!value_->is_number()) fail("a number");
  return value_->get<double>();
}

bool JsonNode::boolean_or(std::string_view key, bool otherwise) const {
  auto node = find(key);
  return node ? node->boolean() : otherwise;
}

std::vector<JsonNode> JsonNode::parts(std::string_view list_key) const {
  if (type() != "Sequence") return {*this};
  std::vector<JsonNode> out;
  for (const JsonNode& item : at(list_key).items())
    for (JsonNode& part : item.parts(list_key)) out.push_back(std::move(part));
  return out;
}

void JsonNode::fail(std::string_view what_it_must_be) const { throw Error("{} must be {}.", path_, what_it_must_be); }

void JsonNode::unsupported(std::string_view role, std::string_view known) const {
  throw Error("{} is the {} {}, which is not supported; supported are {}.", path_, role, in_quotes(type()), known);
}

}  // namespace fk
