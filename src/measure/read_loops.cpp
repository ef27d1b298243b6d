#include "measure/read_loops.h"

#include "measure/stream_kernels.h"

namespace fk {

std::vector<ReadKernel> read_loops(size_t stretch_bytes) {
  std::vector<ReadKernel> all = stream_read_kernels();
  if (stretch_bytes % kReadBlock == 0) all.push_back(read_kernels().front());
  return all;
}

}  // namespace fk
