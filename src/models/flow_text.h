// The part of YAML that catalog.yaml is written in: `name: {key: value, ...}`, a line for each entry. A reader of all
// of YAML takes 14 ms for the catalog, in every process that asks for a model; this one takes less than one.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json_fwd.h"

namespace fk {

struct FlowEntry {
  std::string name;
  std::vector<std::pair<std::string, Json>> fields;  // in the text's order
};

// Values are maps in braces, lists in brackets, texts in double quotes without escapes, and plain words as YAML 1.1
// reads them: null, an integer, a number, a truth value, or else a text. Empty lines and lines that begin with # are
// left out. Throws Error with the number of the line.
std::vector<FlowEntry> parse_flow_entries(std::string_view text);

}  // namespace fk
