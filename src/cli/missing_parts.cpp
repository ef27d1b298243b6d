// The parts this build lacks.
#include "cli/missing_parts.h"

namespace fk {

MissingPart cuda_backend() {
  return {"cuda", "this build has no CUDA backend",
          "build with `cmake --preset cuda-release` on a machine with the CUDA toolkit"};
}

std::vector<MissingPart> missing_parts() { return {cuda_backend()}; }

}  // namespace fk
