// Optional parts that this build or machine lacks, each with the way to get it.
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
