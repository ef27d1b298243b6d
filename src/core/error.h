// Error: the command cannot continue. Caught once, at the top of a verb or request, and printed as one sentence.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace fk {

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& sentence) : std::runtime_error(sentence) {}

  template <class... Args>
  explicit Error(fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

// An invalid command line: exit code 2 instead of 1.
class UsageError : public Error {
 public:
  using Error::Error;
};

}  // namespace fk
