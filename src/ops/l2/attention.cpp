#include "ops/l2/attention.h"

#include "ops/l1/attention_oracle.h"
#include "ops/l1/flash_attn_decode.h"
#include "ops/l1/flash_attn_prefill.h"
#include "ops/l1/store_kvcache.h"
#include "ops/register.h"

namespace fk {
namespace {

FlashAttnPrefill::Init prefill_init(const Attention::Init& init) {
  return {.num_heads = init.num_heads,
          .num_kv_heads = init.num_kv_heads,
          .head_size = init.head_size,
          .softmax_scale = init.scale,
          .sliding_window = init.sliding_window,
          .logits_soft_cap = init.logits_soft_cap,
          .attention_chunk_size = init.attention_chunk_size,
          .attention_sinks = init.attention_sinks};
}

FlashAttnDecode::Init decode_init(const Attention::Init& init) {
  return {.num_heads = init.num_heads,
          .num_kv_heads = init.num_kv_heads,
          .head_size = init.head_size,
          .softmax_scale = init.scale,
          .sliding_window = init.sliding_window,
          .logits_soft_cap = init.logits_soft_cap,
          .attention_chunk_size = init.attention_chunk_size,
          .attention_sinks = init.attention_sinks};
}

}  // namespace

std::vector<StateSpec> Attention::states(const Init& init) {
  Shape heads{init.num_kv_heads, init.head_size};
  return {{"key_cache", StateKind::kPerToken, heads}, {"value_cache", StateKind::kPerToken, heads}};
}

OutputSpecs Attention::outputs(const Init&, Args given) { return {TensorSpec{given[0]->shape(), given[0]->dtype()}}; }

Inputs Attention::inputs(const Init& init, const Workload& w) {
  auto heads = [&](int64_t n) {
    return InputSpec{{{w.num_tokens(), n * init.head_size}, w.dtype}, Generator::normal()};
  };
  return {heads(init.num_heads), heads(init.num_kv_heads), heads(init.num_kv_heads)};
}

Cost Attention::cost(const Init& init, const Workload& w) {
  // Keys and values read are those of the cache and the new ones; the new ones are then written to the cache.
  Cost cost = FlashAttnPrefill::cost(prefill_init(init), w);
  cost.written_bytes += 2 * static_cast<double>(w.num_tokens() * init.num_kv_heads * init.head_size) *
                        static_cast<double>(dtype_size(w.dtype));
  return cost;
}

Tolerance Attention::tolerance(const Init& init, DType dtype) {
  return FlashAttnPrefill::tolerance(prefill_init(init), dtype);
}

Tolerance Attention::tolerance_on(const Init& init, DType dtype, Args given) {
  return tolerance_on_scores(tolerance(init, dtype), *given[0], *given[1], init.head_size, init.scale);
}

std::vector<Case<Attention>> Attention::cases() {
  return {
      {"decode",
       {.num_heads = 4, .head_size = 16, .scale = 0.25, .num_kv_heads = 2},
       Workload::batch({{1, 5}, {1, 40}})},
      {"prefill",
       {.num_heads = 4, .head_size = 16, .scale = 0.25, .num_kv_heads = 2},
       Workload::batch({{20, 0}, {3, 0}})},
      {"mixed, chunked",
       {.num_heads = 6, .head_size = 24, .scale = 0.2, .num_kv_heads = 3},
       Workload::batch({{1, 30}, {1, 1}, {17, 0}, {5, 33}})},
      {"window",
       {.num_heads = 2, .head_size = 32, .scale = 0.17, .num_kv_heads = 1, .sliding_window = 8},
       Workload::batch({{1, 30}, {25, 4}})},
      {"pages of 64",
       {.num_heads = 4, .head_size = 16, .scale = 0.25, .num_kv_heads = 2},
       Workload::batch({{1, 130}, {1, 5}, {17, 50}}).with_pages_of(64)},
      {"soft cap",
       {.num_heads = 2, .head_size = 32, .scale = 0.5, .num_kv_heads = 1, .logits_soft_cap = 4},
       Workload::batch({{1, 30}, {9, 4}})},
      {"sinks, window",
       {.num_heads = 4,
        .head_size = 16,
        .scale = 0.25,
        .num_kv_heads = 2,
        .sliding_window = 7,
        .attention_sinks = true},
       Workload::batch({{1, 30}, {1, 3}, {17, 0}})},
      {"chunks",
       {.num_heads = 4, .head_size = 16, .scale = 0.25, .num_kv_heads = 2, .attention_chunk_size = 10},
       Workload::batch({{1, 30}, {1, 9}, {17, 5}})},
  };
}

namespace {

class ComposedAttention final : public Attention {
 public:
  ComposedAttention(const Init& init, Builder& builder)
      : Attention(init),
        store_kvcache(builder.child<StoreKVCache>("store_kvcache",
                                                  {.num_kv_heads = init.num_kv_heads, .head_size = init.head_size})),
        decode(builder.child<FlashAttnDecode>("decode", decode_init(init))),
        prefill(builder.child<FlashAttnPrefill>("prefill", prefill_init(init))) {}

  void forward(Context& ctx, View query, View key, View value, View out) override {
    const AttentionMetadata& batch = *ctx.attention;
    const View &key_cache = own_state(ctx, 0), &value_cache = own_state(ctx, 1);
    View q = query.split_last(init_.num_heads, init_.head_size);
    View k = key.split_last(init_.num_kv_heads, init_.head_size);
    View v = value.split_last(init_.num_kv_heads, init_.head_size);
    View o = out.split_last(init_.num_heads, init_.head_size);

    store_kvcache(ctx, k, v, key_cache, value_cache, batch.slot_mapping);
    int64_t decoding = batch.decode.num_tokens, prefilling = batch.prefill.num_tokens;
    if (decoding > 0)
      decode.into(ctx, q.narrow(0, 0, decoding), key_cache, value_cache, batch.decode.seq_lens,
                  batch.decode.block_table, o.narrow(0, 0, decoding));
    if (prefilling > 0)
      prefill.into(ctx, q.narrow(0, decoding, prefilling), key_cache, value_cache, batch.prefill.cu_seqlens_q,
                   batch.prefill.cu_seqlens_k, batch.prefill.block_table, o.narrow(0, decoding, prefilling));
  }

 private:
  Op<StoreKVCache> store_kvcache;
  Op<FlashAttnDecode> decode;
  Op<FlashAttnPrefill> prefill;
};

FK_COMPOSITION(Attention, ComposedAttention);

}  // namespace
}  // namespace fk
