#include "ops/l2/mla_sparse_attention.h"

#include <algorithm>

#include "ops/formats/weight_format.h"
#include "ops/l1/concat_and_cache_mla.h"
#include "ops/l1/flash_mla_sparse_fwd.h"
#include "ops/l2/mla_projections.h"
#include "ops/register.h"

namespace fk {

Inputs MLASparseAttention::inputs(const Init& init, const Workload& w) {
  Inputs inputs = MLAAttention::inputs(init, w);
  int64_t least = INT32_MAX;  // keys that all queries see
  for (const Sequence& s : w.sequences)
    if (s.query_len > 0) least = std::min(least, s.context_len + 1);
  inputs.push_back(InputSpec{{{w.num_tokens(), init.top_k}, DType::kI32}, Generator::integers(-1, least)});
  return inputs;
}

Cost MLASparseAttention::cost(const Init& init, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens()), H = static_cast<double>(init.num_heads),
       latent = static_cast<double>(init.kv_lora_rank), rope = static_cast<double>(init.qk_rope_head_dim),
       nope = static_cast<double>(init.qk_nope_head_dim), v = static_cast<double>(init.v_head_dim),
       size = static_cast<double>(dtype_size(w.dtype));
  Cost attended = FlashMLASparseFwd::cost({.num_heads = init.num_heads,
                                           .kv_lora_rank = init.kv_lora_rank,
                                           .qk_rope_head_dim = init.qk_rope_head_dim,
                                           .top_k = init.top_k},
                                          w);
  // Of the entries in the lists, those of earlier calls are read; which are, nobody knows: none is counted.
  return {.read_bytes = size * T * (H * (nope + rope) + latent + rope) + 4 * T * static_cast<double>(init.top_k) +
                        matrix_bytes(init.weight_format, init.num_heads * (init.qk_nope_head_dim + init.v_head_dim),
                                     init.kv_lora_rank, w.dtype),
          .written_bytes = size * T * (H * v + latent + rope),
          .matrix_flops = attended.matrix_flops + 2 * T * H * latent * (nope + v),
          .vector_flops = attended.vector_flops,
          .matrix_speedup = init.weight_format.empty() ? 1 : kInt8Speedup};
}

std::vector<Case<MLASparseAttention>> MLASparseAttention::cases() {
  Init small{{.num_heads = 4,
              .scale = 0.2,
              .qk_nope_head_dim = 16,
              .qk_rope_head_dim = 8,
              .v_head_dim = 16,
              .kv_lora_rank = 16},
             4};
  Init odd{{.num_heads = 3,
            .scale = 0.15,
            .qk_nope_head_dim = 20,
            .qk_rope_head_dim = 6,
            .v_head_dim = 27,
            .kv_lora_rank = 33},
           11};
  return {
      {"decode", small, Workload::batch({{1, 5}, {1, 40}})},
      {"prefill", small, Workload::batch({{20, 0}, {3, 0}})},
      {"mixed, chunked", odd, Workload::batch({{1, 30}, {1, 20}, {17, 15}, {5, 33}})},
  };
}

namespace {

class ComposedMLASparseAttention final : public MLASparseAttention {
 public:
  ComposedMLASparseAttention(const Init& init, Builder& builder)
      : MLASparseAttention(init),
        concat_and_cache_mla(builder.child<ConcatAndCacheMLA>(
            "concat_and_cache_mla",
            {.kv_lora_rank = init.kv_lora_rank, .qk_rope_head_dim = init.qk_rope_head_dim})),
        absorb_q(builder.child<PerHeadLinear>("kv_b_proj", absorb_queries(init))),
        v_up_proj(builder.child<PerHeadLinear>("kv_b_proj", project_values(init))),
        attend(builder.child<FlashMLASparseFwd>("attend", {.num_heads = init.num_heads,
                                                           .kv_lora_rank = init.kv_lora_rank,
                                                           .qk_rope_head_dim = init.qk_rope_head_dim,
                                                           .top_k = init.top_k,
                                                           .softmax_scale = init.scale})) {}

  void forward(Context& ctx, View q, View kv_c_normed, View k_pe, View topk_indices, View out) override {
    const AttentionMetadata& batch = *ctx.attention;
    const View& kv_cache = own_state(ctx, 0);
    concat_and_cache_mla(ctx, kv_c_normed, k_pe, kv_cache, batch.slot_mapping);
    View heads = q.split_last(init_.num_heads, init_.qk_head_dim());
    View q_pe = heads.narrow(2, init_.qk_nope_head_dim, init_.qk_rope_head_dim);
    View q_latent = absorb_q(ctx, heads.narrow(2, 0, init_.qk_nope_head_dim));
    View latents = ctx.arena.make(q_latent.spec());
    int64_t decoding = batch.decode.num_tokens, prefilling = batch.prefill.num_tokens;
    auto attend_to = [&](const SequenceGroup& group, int64_t first, int64_t tokens, OptView starts) {
      attend.into(ctx, q_latent.narrow(0, first, tokens), q_pe.narrow(0, first, tokens), kv_cache,
                  topk_indices.narrow(0, first, tokens), group.block_table, starts, latents.narrow(0, first, tokens));
    };
    if (decoding > 0) attend_to(batch.decode, 0, decoding, OptView());
    if (prefilling > 0) attend_to(batch.prefill, decoding, prefilling, batch.prefill.cu_seqlens_q);
    v_up_proj.into(ctx, latents, out.split_last(init_.num_heads, init_.v_head_dim));
  }

 private:
  Op<ConcatAndCacheMLA> concat_and_cache_mla;
  Op<PerHeadLinear> absorb_q, v_up_proj;
  Op<FlashMLASparseFwd> attend;
};

FK_COMPOSITION(MLASparseAttention, ComposedMLASparseAttention);

}  // namespace
}  // namespace fk
