// KvCachePaged: keys and values of all layers in blocks of 16 tokens, which are allocated to sequences and freed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/memory.h"
#include "ops/forward_context.h"
#include "ops/materialize.h"

namespace fk {

class KvCachePaged {
 public:
  // Room for `tokens` tokens, rounded up to whole blocks; pages are only touched when used.
  KvCachePaged(const CacheShape& shape, DType dtype, int64_t tokens, Device device = kCpu);

  std::span<const KvLayer> layers() const { return views_; }
  int64_t blocks() const { return blocks_; }

  // Throws Error with the sizes if no block is left.
  int32_t take();
  void give_back(int32_t block);

  static int64_t bytes_per_token(const CacheShape& shape, DType dtype);

 private:
  int64_t blocks_;
  std::vector<Tensor> tensors_;
  std::vector<KvLayer> views_;
  std::vector<int32_t> free_;  // last in, first out
};

}  // namespace fk
