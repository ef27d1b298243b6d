// A value in tokenizer.json with its path, so that every error names the position in the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_fwd.h"

namespace fk {

class JsonNode {
 public:
  JsonNode(const Json& value, std::string path) : value_(&value), path_(std::move(path)) {}

  const std::string& path() const { return path_; }

  // Members of an object: at() throws Error where the key is missing, find() gives nothing where it is missing or null.
  JsonNode at(std::string_view key) const;
  std::optional<JsonNode> find(std::string_view key) const;
  // Elements of an array.
  std::vector<JsonNode> items() const;
  std::vector<std::pair<std::string, JsonNode>> members() const;

  std::string string() const;
  bool boolean() const;
  int64_t integer() const;
  double number() const;

  bool boolean_or(std::string_view key, bool otherwise) const;
  std::string type() const { return at("type").string(); }

  // The parts of a Sequence, nested ones included, in order; any other value is its own only part.
  std::vector<JsonNode> parts(std::string_view list_key) const;

  [[noreturn]] void fail(std::string_view what_it_must_be) const;
  // For an unsupported component.
  [[noreturn]] void unsupported(std::string_view role, std::string_view known) const;

 private:
  const Json* value_;
  std::string path_;
};

}  // namespace fk
