// HostCommunicator: the collective operations in the CPU's memory, for communicators that can move bytes.
#pragma once

#include <cstddef>
#include <vector>

#include "core/communicator.h"

namespace fk {

class HostCommunicator : public Communicator {
 public:
  void all_reduce(const View& x, const View& out, void* stream) override;
  void all_gather(const View& x, const View& out, void* stream) override;
  void reduce_scatter(const View& x, const View& out, void* stream) override;
  void all_to_all(const View& x, const View& out, void* stream) override;
  void broadcast(const View& x, int64_t root, void* stream) override;

 protected:
  // `out` has size() blocks of `bytes`; none overlaps `x`.
  virtual void gather_bytes(const std::byte* x, size_t bytes, std::byte* out) = 0;
  // Both have size() blocks of `bytes`.
  virtual void exchange_bytes(const std::byte* x, size_t bytes, std::byte* out) = 0;
  virtual void broadcast_bytes(std::byte* x, size_t bytes, int64_t root) = 0;

 private:
  std::vector<std::byte> sent_, received_;  // kept from call to call
};

// out[i] = the sum of block[i] over `blocks` blocks of n elements, `stride_bytes` apart, the first block first.
void sum_blocks(const std::byte* block, int64_t blocks, size_t stride_bytes, int64_t n, DType dtype, std::byte* out);

}  // namespace fk
