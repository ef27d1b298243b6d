// The parts this build lacks.
#include "cli/missing_parts.h"

namespace fk {

MissingPart cuda_backend() {
  return {"cuda", "this version has no CUDA backend", "run on the CPU with `--device cpu`, the default"};
}

std::vector<MissingPart> missing_parts() { return {cuda_backend()}; }

}  // namespace fk
