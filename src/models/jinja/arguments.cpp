#include "models/jinja/arguments.h"

#include <fmt/format.h>

#include <algorithm>

namespace fk::jinja {

ArgumentReader::ArgumentReader(std::string_view what, const Arguments& given,
                               std::initializer_list<std::string_view> names)
    : what_(what) {
  if (given.positional.size() > names.size())
    throw Fault(fmt::format("{} takes at most {} arguments, not {}", what, names.size(), given.positional.size()));
  for (size_t i = 0; i < given.positional.size(); ++i) found_.emplace_back(names.begin()[i], &given.positional[i]);
  for (const auto& [name, value] : given.named) {
    auto known = std::find(names.begin(), names.end(), name);
    if (known == names.end()) throw Fault(fmt::format("{} has no argument '{}'", what, name));
    if (find(name) != nullptr) throw Fault(fmt::format("{} was given '{}' twice", what, name));
    found_.emplace_back(*known, &value);
  }
}

const Value* ArgumentReader::find(std::string_view name) const {
  for (const auto& [n, value] : found_)
    if (n == name) return value;
  return nullptr;
}

const Value& ArgumentReader::required(std::string_view name) const {
  const Value* value = find(name);
  if (value == nullptr) throw Fault(fmt::format("{} wants an argument '{}'", what_, name));
  return *value;
}

std::string ArgumentReader::text_of(std::string_view name) const {
  const Value& value = required(name);
  if (value.string() == nullptr)
    throw Fault(fmt::format("'{}' of {} must be a str, not {}", name, what_, type_name(value)));
  return *value.string();
}

bool ArgumentReader::flag(std::string_view name, bool otherwise) const {
  const Value* value = find(name);
  return value == nullptr ? otherwise : truthy(*value);
}

int64_t ArgumentReader::integer(std::string_view name, int64_t otherwise) const {
  const Value* value = find(name);
  return value == nullptr ? otherwise : to_integer(*value, name);
}

}  // namespace fk::jinja
