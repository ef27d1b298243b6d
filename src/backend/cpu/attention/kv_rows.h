// KvRows: addresses of the keys (or the values) of one sequence, dense or in blocks of a paged cache.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/tensor.h"

namespace fk {

class KvRows {
 public:
  // Rows first .. of a [Tk, K, Dh] view.
  static KvRows dense(const View& kv, int64_t first) {
    KvRows rows(kv, 0);
    rows.base_ += first * rows.token_stride_;
    return rows;
  }

  // A cache [blocks, page size, K, Dh] and sequence `s` of a block table i32 [S, n]. Pages hold a power of two of
  // tokens, so that finding a row takes no division.
  static KvRows paged(const View& cache, const View& block_table, int64_t s) {
    KvRows rows(cache, 1);
    rows.block_stride_ = bytes(cache, 0);
    rows.page_bits_ = std::countr_zero(static_cast<uint64_t>(cache.size(1)));
    rows.blocks_ = block_table.ptr<int32_t>() + s * block_table.stride(0);
    return rows;
  }

  const void* row(int64_t token, int64_t head) const {
    const std::byte* in_head = base_ + head * head_stride_;
    if (blocks_ == nullptr) return in_head + token * token_stride_;
    int64_t in_page = token & ((int64_t{1} << page_bits_) - 1);
    return in_head + blocks_[token >> page_bits_] * block_stride_ + in_page * token_stride_;
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
  int page_bits_ = 0;
};

}  // namespace fk
