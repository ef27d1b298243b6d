// AttentionCall: one call of either attention operator, as plain numbers and addresses for a kernel.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/dtype.h"
#include "core/tensor.h"
#include "ops/l1/flash_attn_decode.h"
#include "ops/l1/flash_attn_prefill.h"

namespace fk::cuda {

// Elements from token to token and from head to head.
struct HeadStrides {
  int64_t token = 0;
  int64_t head = 0;
};

struct AttentionCall {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* out = nullptr;
  HeadStrides q_strides, k_strides, v_strides, out_strides;

  const int32_t* block_table = nullptr;  // missing: sequence s has its keys from row cu_seqlens_k[s] on
  int64_t table_width = 0;
  int page_bits = 0;                      // a block of the cache holds 2^page_bits tokens; negative: no power of two
  const int32_t* cu_seqlens_q = nullptr;  // missing in decoding: one query per sequence
  const int32_t* cu_seqlens_k = nullptr;
  const int32_t* seq_lens = nullptr;  // in decoding; missing: sequence s has the keys between two of cu_seqlens_k

  int sequences = 0;
  int tokens = 0;
  int64_t key_rows = 0;  // rows of k and v in tokens; 0 with a block table
  int heads = 0;
  int kv_heads = 0;
  int head_size = 0;
  float scale = 1;
  float soft_cap = 0;
  int window = 0;
  int chunk = 0;  // positions of a chunk; 0: none
  // Results are multiplied by its sigmoid, in the kernels that say so; of the shape of `out`, or null.
  const void* gate = nullptr;
  HeadStrides gate_strides;
  // In decoding: when this kernel starts, lengths, tables and the keys and values of all pages but a sequence's last
  // are in memory, so that they may be read before the previous kernel has ended. This holds if that kernel writes only
  // the last key of each sequence (no prompts in the batch) and calls let_next_start() after its wait_for_previous(),
  // as rope_store does for many tokens.
  bool cache_settled = false;
  const float* sinks = nullptr;  // a score of each head without a value, or null
  bool causal = true;
  DType dtype = DType::kBF16;
};

AttentionCall decode_call(const FlashAttnDecode::Init& init, const View& q, const View& k_cache, const View& v_cache,
                          const View& cache_seqlens, const View& block_table, const View& out);
AttentionCall prefill_call(const FlashAttnPrefill::Init& init, const View& q, const View& k, const View& v,
                           const View& cu_seqlens_q, const View& cu_seqlens_k, const OptView& block_table,
                           const View& out);

inline const float* sinks_of(const OptView& sinks) { return sinks ? sinks->ptr<float>() : nullptr; }

// Keys of a tile. Kernels that load whole pages of the cache support only pages of this size.
inline constexpr int kTileBits = 4, kTileKeys = 1 << kTileBits;
// True without a block table or if its pages have the size of a tile.
inline bool pages_are_tiles(const AttentionCall& call) {
  return call.block_table == nullptr || call.page_bits == kTileBits;
}

// Every head is 16-byte aligned in all four tensors: required by kernels that load packs.
bool heads_on_16_bytes(const AttentionCall& call);

}  // namespace fk::cuda
