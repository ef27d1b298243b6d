#include "backend/cuda/l2/attend.h"

#include "backend/cuda/attention/decode_shares.h"
#include "backend/cuda/attention/decode_split.h"
#include "backend/cuda/attention/prefill_mma.h"
#include "backend/cuda/attention/prefill_wgmma.h"
#include "backend/cuda/attention/rows.h"
#include "backend/cuda/l1/sigmoid_mul.h"

namespace fk::cuda {

void Attend::run(Context& ctx, const View& q, const View& key_cache, const View& value_cache, const View& out,
                 const OptView& gate) const {
  const AttentionMetadata& batch = *ctx.attention;
  int64_t decoding = batch.decode.num_tokens, prefilling = batch.prefill.num_tokens;
  auto apply_gate = [&](int64_t first, int64_t count) {
    if (!gate) return;
    View rows = out.narrow(0, first, count);
    sigmoid_mul(rows, gate->narrow(0, first, count), rows, ctx.stream);
  };
  if (decoding > 0) {
    FlashAttnDecode::Init decode{.num_heads = init_.num_heads,
                                 .num_kv_heads = init_.num_kv_heads,
                                 .head_size = init_.head_size,
                                 .softmax_scale = init_.scale,
                                 .sliding_window = init_.sliding_window,
                                 .logits_soft_cap = init_.logits_soft_cap};
    AttentionCall call = decode_call(decode, q.narrow(0, 0, decoding), key_cache, value_cache, batch.decode.seq_lens,
                                     batch.decode.block_table, out.narrow(0, 0, decoding));
    // rope_store comes before. Beside prompts it also writes pages that are not the last of a decoding sequence: a
    // draft model computes pages in one row that another row of the same pass reads already.
    call.cache_settled = decoding >= kFewestShared && prefilling == 0;
    if (gate) {
      call.gate = gate->data();
      call.gate_strides = {.token = gate->stride(0), .head = gate->stride(1)};
    }
    if (decode_split_refusal(call).empty()) {
      attention_decode_split(call, ctx.stream);
    } else if (decode_shares_refusal(call).empty()) {
      Arena::Mark scratch = ctx.arena.mark();
      View partial = ctx.arena.make({{decode_shares_scratch(call)}, DType::kF32});
      attention_decode_shares(call, partial.ptr<float>(), ctx.stream);
      ctx.arena.release(scratch);
    } else {
      attention_rows(call, ctx.stream);
      apply_gate(0, decoding);
    }
  }
  if (prefilling > 0) {
    FlashAttnPrefill::Init prefill{.num_heads = init_.num_heads,
                                   .num_kv_heads = init_.num_kv_heads,
                                   .head_size = init_.head_size,
                                   .softmax_scale = init_.scale,
                                   .sliding_window = init_.sliding_window,
                                   .logits_soft_cap = init_.logits_soft_cap};
    AttentionCall call =
        prefill_call(prefill, q.narrow(0, decoding, prefilling), key_cache, value_cache, batch.prefill.cu_seqlens_q,
                     batch.prefill.cu_seqlens_k, batch.prefill.block_table, out.narrow(0, decoding, prefilling));
    if (prefill_wgmma_refusal(call).empty())
      attention_prefill_wgmma(call, ctx.stream);
    else if (prefill_mma_refusal(call).empty())
      attention_prefill_mma(call, ctx.stream);
    else
      attention_rows(call, ctx.stream);
    apply_gate(decoding, prefilling);
  }
}

}  // namespace fk::cuda
