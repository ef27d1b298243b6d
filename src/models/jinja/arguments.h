// The arguments of a filter, a test or a method, by position or by name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "models/jinja/value.h"

namespace fk::jinja {

class ArgumentReader {
 public:
  // `names` in the order of positions. Fault where there are more arguments or others.
  ArgumentReader(std::string_view what, const Arguments& given, std::initializer_list<std::string_view> names);

  // Null where it is not given.
  const Value* find(std::string_view name) const;
  const Value& required(std::string_view name) const;
  std::string text_of(std::string_view name) const;  // Fault if it is no string
  bool flag(std::string_view name, bool otherwise) const;
  int64_t integer(std::string_view name, int64_t otherwise) const;

 private:
  std::string what_;
  std::vector<std::pair<std::string_view, const Value*>> found_;
};

}  // namespace fk::jinja
