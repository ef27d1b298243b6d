// What fastkernels can be but this build is not, each with the way to get it.
#pragma once

#include <string>
#include <vector>

namespace fk {

struct MissingPart {
  std::string name;
  std::string why;  // both read as parts of a sentence
  std::string how;
};

MissingPart cuda_backend();
std::vector<MissingPart> missing_parts();

}  // namespace fk
