#include "models/module_patterns.h"

#include <algorithm>

#include "core/error.h"
#include "core/json.h"
#include "models/in_quotes.h"

namespace fk {

ModulePatterns::ModulePatterns(const JsonFields& fields, std::string_view key) {
  constexpr std::string_view kExpression = "re:";
  constexpr size_t kLongest = 512;
  const Json* list = fields.find(key);
  if (list == nullptr) return;
  if (!list->is_array()) throw Error("{}: {} must be a list of module names.", fields.what(), key);
  for (const Json& entry : *list) {
    if (!entry.is_string()) throw Error("{}: {} must be a list of module names.", fields.what(), key);
    const auto& text = entry.get_ref<const std::string&>();
    bool expression = text.starts_with(kExpression);
    if (!expression) names_.push_back(text);
    // Elsewhere a plain entry may be an expression, too: "model.layers.*.mlp".
    if (!expression && text.find_first_of("*+?[(|^$\\") == std::string::npos) continue;
    try {
      if (text.size() > kLongest) throw std::regex_error(std::regex_constants::error_complexity);
      // The library's usual matcher takes exponential time for some expressions.
      expressions_.emplace_back(expression ? text.substr(kExpression.size()) : text,
                                std::regex::ECMAScript | std::regex_constants::__polynomial);
    } catch (const std::regex_error&) {
      throw Error("{}: {} holds {}, which is not a regular expression in the syntax of ECMAScript.", fields.what(), key,
                  in_quotes(text));
    }
  }
}

bool ModulePatterns::match(const std::string& path) const {
  std::string dotted = "." + path + ".";
  for (const std::string& name : names_)
    if (!name.empty() && dotted.find("." + name + ".") != std::string::npos) return true;
  return std::any_of(expressions_.begin(), expressions_.end(), [&](const std::regex& expression) {
    return std::regex_search(path, expression, std::regex_constants::match_continuous);
  });
}

bool ModulePatterns::contains(std::string_view text) const {
  return std::find(names_.begin(), names_.end(), text) != names_.end();
}

}  // namespace fk
