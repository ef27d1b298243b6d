// KvRows: addresses of the keys (or the values) of one sequence, dense or in blocks of a paged cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/tensor.h"
#include "ops/forward_context.h"

namespace fk {

class KvRows {
 public:
  // Rows first .. of a [Tk, K, Dh] view.
  static KvRows dense(const View& kv, int64_t first) {
    KvRows rows(kv, 0);
    rows.base_ += first * rows.token_stride_;
    return rows;
  }

  // A cache [blocks, kBlockSize, K, Dh] and sequence `s` of a block table i32 [S, n].
  static KvRows paged(const View& cache, const View& block_table, int64_t s) {
    KvRows rows(cache, 1);
    rows.block_stride_ = bytes(cache, 0);
    rows.blocks_ = block_table.ptr<int32_t>() + s * block_table.stride(0);
    return rows;
  }

  const void* row(int64_t token, int64_t head) const {
    const std::byte* in_head = base_ + head * head_stride_;
    if (blocks_ == nullptr) return in_head + token * token_stride_;
    return in_head + blocks_[token / kBlockSize] * block_stride_ + token % kBlockSize * token_stride_;
  }

  int64_t token_stride_bytes() const { return token_stride_; }  // between neighbours in a block

 private:
  static int64_t bytes(const View& v, int dim) { return v.stride(dim) * static_cast<int64_t>(dtype_size(v.dtype())); }
  KvRows(const View& kv, int token_dim)
      : base_(static_cast<const std::byte*>(kv.data())),
        token_stride_(bytes(kv, token_dim)),
        head_stride_(bytes(kv, token_dim + 1)) {}

  const std::byte* base_;
  int64_t token_stride_, head_stride_, block_stride_ = 0;
  const int32_t* blocks_ = nullptr;
};

}  // namespace fk
