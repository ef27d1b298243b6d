#include "engine/kv_cache_paged.h"

#include "core/error.h"

namespace fk {

KvCachePaged::KvCachePaged(const CacheShape& shape, DType dtype, int64_t tokens, Device device)
    : blocks_((tokens + kBlockSize - 1) / kBlockSize) {
  for (int64_t i = 0; i < shape.layers; ++i) {
    View kv[2];
    for (View& view : kv) {
      tensors_.emplace_back(Shape{blocks_, kBlockSize, shape.kv_heads, shape.head_size}, dtype, device);
      view = tensors_.back();
    }
    views_.push_back({kv[0], kv[1]});
  }
  for (int64_t b = blocks_ - 1; b >= 0; --b) free_.push_back(static_cast<int32_t>(b));
}

int32_t KvCachePaged::take() {
  if (free_.empty())
    throw Error(
        "The KV cache is full: all {} blocks of {} tokens are in use; allow a longer context or run fewer sequences.",
        blocks_, kBlockSize);
  int32_t block = free_.back();
  free_.pop_back();
  return block;
}

void KvCachePaged::give_back(int32_t block) {
  FK_CHECK(block >= 0 && block < blocks_);
  free_.push_back(block);
}

int64_t KvCachePaged::bytes_per_token(const CacheShape& shape, DType dtype) {
  return 2 * shape.layers * shape.kv_heads * shape.head_size * static_cast<int64_t>(dtype_size(dtype));
}

}  // namespace fk
