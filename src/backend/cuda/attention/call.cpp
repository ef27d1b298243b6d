#include "backend/cuda/attention/call.h"

#include <bit>

namespace fk::cuda {
namespace {

// Rows of [.., heads, head_size] with the leading dimensions dense.
HeadStrides strides_of(const View& v) { return {v.stride(-3), v.stride(-2)}; }

int page_bits(const View& cache) {
  auto tokens = static_cast<uint64_t>(cache.size(1));
  return std::has_single_bit(tokens) ? std::countr_zero(tokens) : -1;
}

template <class Init>
AttentionCall common(const Init& init, const View& q, const View& k, const View& v, const View& out) {
  AttentionCall call;
  call.q = q.data();
  call.k = k.data();
  call.v = v.data();
  call.out = out.data();
  call.q_strides = strides_of(q);
  call.k_strides = strides_of(k);
  call.v_strides = strides_of(v);
  call.out_strides = strides_of(out);
  call.tokens = static_cast<int>(q.size(0));
  call.heads = static_cast<int>(init.num_heads);
  call.kv_heads = static_cast<int>(init.num_kv_heads);
  call.head_size = static_cast<int>(init.head_size);
  call.scale = static_cast<float>(init.softmax_scale);
  call.soft_cap = static_cast<float>(init.logits_soft_cap);
  call.window = static_cast<int>(init.sliding_window);
  call.chunk = static_cast<int>(init.attention_chunk_size);
  call.dtype = q.dtype();
  return call;
}

bool on_16_bytes(const void* data, const HeadStrides& strides, int64_t element) {
  return reinterpret_cast<uintptr_t>(data) % 16 == 0 && strides.token * element % 16 == 0 &&
         strides.head * element % 16 == 0;
}

}  // namespace

AttentionCall decode_call(const FlashAttnDecode::Init& init, const View& q, const View& k_cache, const View& v_cache,
                          const View& cache_seqlens, const View& block_table, const View& out) {
  AttentionCall call = common(init, q, k_cache, v_cache, out);
  call.sequences = static_cast<int>(cache_seqlens.size(0));
  call.seq_lens = cache_seqlens.ptr<int32_t>();
  call.block_table = block_table.ptr<int32_t>();
  call.table_width = block_table.size(1);
  call.page_bits = page_bits(k_cache);
  return call;
}

AttentionCall prefill_call(const FlashAttnPrefill::Init& init, const View& q, const View& k, const View& v,
                           const View& cu_seqlens_q, const View& cu_seqlens_k, const OptView& block_table,
                           const View& out) {
  AttentionCall call = common(init, q, k, v, out);
  call.sequences = static_cast<int>(cu_seqlens_q.size(0)) - 1;
  call.cu_seqlens_q = cu_seqlens_q.ptr<int32_t>();
  call.cu_seqlens_k = cu_seqlens_k.ptr<int32_t>();
  call.causal = init.causal;
  if (block_table) {
    call.block_table = block_table->ptr<int32_t>();
    call.table_width = block_table->size(1);
    call.page_bits = page_bits(k);
  } else {
    call.key_rows = k.size(0);
  }
  return call;
}

bool heads_on_16_bytes(const AttentionCall& call) {
  auto element = static_cast<int64_t>(dtype_size(call.dtype));
  return on_16_bytes(call.q, call.q_strides, element) && on_16_bytes(call.k, call.k_strides, element) &&
         on_16_bytes(call.v, call.v_strides, element) && on_16_bytes(call.out, call.out_strides, element);
}

}  // namespace fk::cuda
