#include "ops/l2/mla_attention.h"

#include <algorithm>

#include "ops/formats/weight_format.h"
#include "ops/l1/attention_oracle.h"
#include "ops/l1/concat_and_cache_mla.h"
#include "ops/l1/flash_mla_with_kvcache.h"
#include "ops/l1/merge_attn_states.h"
#include "ops/l1/mla_prefill.h"
#include "ops/l2/column_parallel_linear.h"
#include "ops/l2/mla_projections.h"
#include "ops/register.h"

namespace fk {

std::vector<StateSpec> MLAAttention::states(const Init& init) {
  return {{"kv_cache", StateKind::kPerToken, {init.kv_lora_rank + init.qk_rope_head_dim}}};
}

OutputSpecs MLAAttention::outputs(const Init& init, Args given) {
  return {TensorSpec{{given[0]->size(0), init.num_heads * init.v_head_dim}, given[0]->dtype()}};
}

Inputs MLAAttention::inputs(const Init& init, const Workload& w) {
  auto rows = [&](int64_t width) { return InputSpec{{{w.num_tokens(), width}, w.dtype}, Generator::normal()}; };
  return {rows(init.num_heads * init.qk_head_dim()), rows(init.kv_lora_rank), rows(init.qk_rope_head_dim)};
}

Cost MLAAttention::cost(const Init& init, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens()), H = static_cast<double>(init.num_heads),
       latent = static_cast<double>(init.kv_lora_rank), rope = static_cast<double>(init.qk_rope_head_dim),
       nope = static_cast<double>(init.qk_nope_head_dim), v = static_cast<double>(init.v_head_dim),
       size = static_cast<double>(dtype_size(w.dtype));
  // Keys of earlier calls are read; the cheaper form of each pair is counted, which is the expanded one, and nothing for
  // projecting keys of earlier calls, so that it is a floor for both.
  double context = 0, pairs = 0;
  for (const Sequence& s : w.sequences) {
    context += static_cast<double>(s.context_len);
    pairs += attended_pairs(s.query_len, s.context_len, {});
  }
  return {.read_bytes = size * (context * (latent + rope) + T * (H * (nope + rope) + latent + rope)) +
                        matrix_bytes(init.weight_format, init.num_heads * (init.qk_nope_head_dim + init.v_head_dim),
                                     init.kv_lora_rank, w.dtype),
          .written_bytes = size * T * (H * v + latent + rope),
          .matrix_flops = 2 * pairs * H * (nope + rope + v) + 2 * T * H * latent * (nope + v),
          .vector_flops = 4 * pairs * H,
          .matrix_speedup = init.weight_format.empty() ? 1 : kInt8Speedup};
}

Tolerance MLAAttention::tolerance(const Init& init, DType dtype) {
  // One product may round its activations, that of new keys and values: its error is in the values and, by the keys, in
  // their weights. Products by head round none.
  return with_rounded_activations(composed_tolerance(dtype, static_cast<double>(init.kv_lora_rank)), init.weight_format,
                                  2);
}

std::vector<Case<MLAAttention>> MLAAttention::cases() {
  Init small{.num_heads = 4,
             .scale = 0.2,
             .qk_nope_head_dim = 16,
             .qk_rope_head_dim = 8,
             .v_head_dim = 16,
             .kv_lora_rank = 16};
  Init odd{.num_heads = 3,
           .scale = 0.15,
           .qk_nope_head_dim = 20,
           .qk_rope_head_dim = 6,
           .v_head_dim = 27,
           .kv_lora_rank = 33};
  Init fp8{.num_heads = 2,
           .scale = 0.072,
           .qk_nope_head_dim = 128,
           .qk_rope_head_dim = 64,
           .v_head_dim = 128,
           .kv_lora_rank = 256,
           .weight_format = "fp8_block"};
  return {
      {"decode", small, Workload::batch({{1, 5}, {1, 40}})},
      {"prefill", small, Workload::batch({{20, 0}, {3, 0}})},
      {"mixed, chunked", odd, Workload::batch({{1, 30}, {1, 1}, {17, 0}, {5, 33}})},
      {"pages of 64", odd, Workload::batch({{1, 130}, {1, 5}, {17, 50}}).with_pages_of(64)},
      {"fp8", fp8, Workload::batch({{1, 30}, {9, 0}, {5, 17}})},
  };
}

namespace {

class ComposedMLAAttention final : public MLAAttention {
 public:
  ComposedMLAAttention(const Init& init, Builder& builder)
      : MLAAttention(init),
        concat_and_cache_mla(builder.child<ConcatAndCacheMLA>(
            "concat_and_cache_mla",
            {.kv_lora_rank = init.kv_lora_rank, .qk_rope_head_dim = init.qk_rope_head_dim})),
        kv_b_proj(builder.child<ColumnParallelLinear>(
            "kv_b_proj", {.input_size = init.kv_lora_rank,
                          .output_size = init.num_heads * (init.qk_nope_head_dim + init.v_head_dim),
                          .weight_format = init.weight_format,
                          .dtype = init.dtype})),
        absorb_q(builder.child<PerHeadLinear>("kv_b_proj", absorb_queries(init))),
        v_up_proj(builder.child<PerHeadLinear>("kv_b_proj", project_values(init))),
        decode(builder.child<FlashMLAWithKVCache>("decode", on_latents(init, false))),
        context(builder.child<FlashMLAWithKVCache>("context", on_latents(init, true))),
        prefill(builder.child<MLAPrefill>("prefill", {.num_heads = init.num_heads,
                                                      .qk_nope_head_dim = init.qk_nope_head_dim,
                                                      .qk_rope_head_dim = init.qk_rope_head_dim,
                                                      .v_head_dim = init.v_head_dim,
                                                      .softmax_scale = init.scale})),
        merge_attn_states(builder.child<MergeAttnStates>(
            "merge_attn_states", {.num_heads = init.num_heads, .head_size = init.v_head_dim})) {}

  void forward(Context& ctx, View q, View kv_c_normed, View k_pe, View out) override {
    const AttentionMetadata& batch = *ctx.attention;
    const View& kv_cache = own_state(ctx, 0);
    concat_and_cache_mla(ctx, kv_c_normed, k_pe, kv_cache, batch.slot_mapping);

    View heads = q.split_last(init_.num_heads, init_.qk_head_dim());
    View result = out.split_last(init_.num_heads, init_.v_head_dim);
    int64_t decoding = batch.decode.num_tokens, prefilling = batch.prefill.num_tokens;
    if (decoding > 0) {
      auto [q_nope, q_pe] = parts_of(heads.narrow(0, 0, decoding));
      View latents = std::get<0>(decode(ctx, absorb_q(ctx, q_nope), q_pe, kv_cache, batch.decode.seq_lens,
                                        batch.decode.block_table, OptView()));
      v_up_proj.into(ctx, latents, result.narrow(0, 0, decoding));
    }
    if (prefilling > 0) {
      View queries = heads.narrow(0, decoding, prefilling);
      auto [q_nope, q_pe] = parts_of(queries);
      View kv = std::get<0>(kv_b_proj(ctx, kv_c_normed.narrow(0, decoding, prefilling)));
      auto [among_new, new_lse] =
          prefill(ctx, queries, kv.split_last(init_.num_heads, init_.qk_nope_head_dim + init_.v_head_dim),
                  k_pe.narrow(0, decoding, prefilling), batch.prefill.cu_seqlens_q);
      auto [latents, context_lse] = context(ctx, absorb_q(ctx, q_nope), q_pe, kv_cache, batch.prefill.seq_lens,
                                            batch.prefill.block_table, batch.prefill.cu_seqlens_q);
      merge_attn_states.into(ctx, v_up_proj(ctx, latents), context_lse, among_new, new_lse,
                             result.narrow(0, decoding, prefilling));
    }
  }

 private:
  static FlashMLAWithKVCache::Init on_latents(const Init& init, bool context_only) {
    return {.num_heads = init.num_heads,
            .kv_lora_rank = init.kv_lora_rank,
            .qk_rope_head_dim = init.qk_rope_head_dim,
            .softmax_scale = init.scale,
            .context_only = context_only};
  }
  std::pair<View, View> parts_of(const View& heads) const {
    return {heads.narrow(2, 0, init_.qk_nope_head_dim), heads.narrow(2, init_.qk_nope_head_dim, init_.qk_rope_head_dim)};
  }

  Op<ConcatAndCacheMLA> concat_and_cache_mla;
  // Three products with one matrix.
  Op<ColumnParallelLinear> kv_b_proj;
  Op<PerHeadLinear> absorb_q, v_up_proj;
  Op<FlashMLAWithKVCache> decode, context;
  Op<MLAPrefill> prefill;
  Op<MergeAttnStates> merge_attn_states;
};

FK_COMPOSITION(MLAAttention, ComposedMLAAttention);

}  // namespace
}  // namespace fk
