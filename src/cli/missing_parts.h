// What fastkernels can be but is not here, each with the way to get it.
#pragma once

#include <string>
#include <vector>

namespace fk {

struct MissingPart {
  std::string name;
  std::string why;  // "reason; what to do"
};

std::vector<MissingPart> missing_parts();

}  // namespace fk
