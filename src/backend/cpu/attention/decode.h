// Attention of one query per sequence over the paged cache, which is read once for all query heads that share a kv
// head. A kernel multiplies queries and keys; the rest is here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/attention/decode_block.h"
#include "ops/forward_context.h"
#include "ops/l1/flash_attn_decode.h"

namespace fk {

// Query heads that share a kv head, in groups of four; the last group may be incomplete.
inline int64_t quads_of(int64_t group) { return (group + kQuad - 1) / kQuad; }

struct QueryTask {
  const void* const* q;  // addresses of `group` rows
  int64_t group;
  int64_t head_size;
  DType dtype;
  std::byte* query;  // of kernel.query_bytes, 64-byte aligned
};

struct KeyTask {
  const std::byte* query;
  const void* const* k;    // addresses of `keys` rows, the first of them the first of a block of the cache
  int64_t k_stride_bytes;  // from row to row inside a block
  int64_t keys;            // 1 .. kDecodeKeys
  int64_t group;
  int64_t head_size;
  DType dtype;
  float* scores;  // [quads][kDecodeKeys][kQuad]: q . k, `keys` of each quad
};

struct DecodeKernel {
  size_t (*query_bytes)(int64_t group, int64_t head_size);
  void (*prepare)(const QueryTask&);
  void (*multiply)(const KeyTask&);
};

struct DecodeArgs {
  View q, k_cache, v_cache, cache_seqlens, block_table, out;
  OptView sinks;  // f32 [H]
};

void decode_attention(Context& ctx, const DecodeKernel& kernel, const FlashAttnDecode::Init& init,
                      const DecodeArgs& args);
std::string_view refuse_decode(const FlashAttnDecode::Init& init, Args args);

extern const DecodeKernel kDecodeDot;      // any CPU, bf16 and f32
extern const DecodeKernel kDecodeAmxBf16;  // x86-64 with AMX, bf16, head sizes that are multiples of 32

}  // namespace fk
