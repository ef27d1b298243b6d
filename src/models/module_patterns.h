// Lists of modules in config.json: names, ends of names, and regular expressions.
#pragma once

#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "models/json_fields.h"

namespace fk {

class ModulePatterns {
 public:
  // The list `key`; none where it is absent. Throws Error where it is no list of texts.
  ModulePatterns(const JsonFields& fields, std::string_view key);

  // A name matches the whole path, its beginning or its end, between dots; "re:..." is a regular expression for the
  // beginning of a path.
  bool match(const std::string& path) const;
  bool contains(std::string_view text) const;

 private:
  std::vector<std::string> names_;
  std::vector<std::regex> expressions_;
};

}  // namespace fk
