#include "backend/cpu/matmul/scratch.h"

namespace fk {

Scratch& shared_scratch() {
  thread_local Scratch scratch;
  return scratch;
}

Scratch& panel_scratch() {
  thread_local Scratch scratch;
  return scratch;
}

}  // namespace fk
