// Completions of a flag's value: a fixed set, files, or names that the program lists at run time.
#pragma once

#include <string>
#include <vector>

#include "cli/flags.h"

namespace fk {

struct ValueHint {
  std::vector<std::string> choices;
  std::string ask;  // a kind of name for known_names(): "operators"; empty: none
  bool files = false, folders = false;

  bool operator==(const ValueHint&) const = default;
};

ValueHint value_hint(const Flag& flag);

// "operators", "models", "scenarios", "runs", "devices", "categories", "families" or "verbs" of this program and
// machine; nothing for another kind, or where they cannot be read. `target`: only scenarios of this operator.
std::vector<std::string> known_names(const std::string& kind, const std::string& target);

}  // namespace fk
