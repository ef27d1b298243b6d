// environment_variable: an environment variable as a string; one that is not set is empty.
#pragma once

#include <cstdlib>
#include <string>

namespace fk {

inline std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace fk
