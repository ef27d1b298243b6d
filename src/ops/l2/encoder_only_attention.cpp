#include "ops/l2/encoder_only_attention.h"

#include <cmath>

#include "ops/l1/attention_oracle.h"
#include "ops/register.h"

namespace fk {

InputSpec sequence_starts(const Workload& w) {
  return {{{w.num_sequences() + 1}, DType::kI32}, Generator::metadata(Generator::Kind::kCuSeqlensQ)};
}

Workload without_contexts(const Workload& workload) {
  Workload w = workload;
  for (Sequence& s : w.sequences) s.context_len = 0;
  return w;
}

FlashAttnPrefill::Init EncoderOnlyAttention::core(const Init& init) {
  return {.num_heads = init.num_heads,
          .num_kv_heads = init.num_kv_heads,
          .head_size = init.head_size,
          .softmax_scale = init.scale,
          .causal = false};
}

OutputSpecs EncoderOnlyAttention::outputs(const Init&, Args given) {
  return {TensorSpec{given[0]->shape(), given[0]->dtype()}};
}

Inputs EncoderOnlyAttention::inputs(const Init& init, const Workload& w) {
  auto heads = [&](int64_t n) {
    return InputSpec{{{w.num_tokens(), n * init.head_size}, w.dtype}, Generator::normal()};
  };
  return {heads(init.num_heads), heads(init.num_kv_heads), heads(init.num_kv_heads), sequence_starts(w)};
}

Cost EncoderOnlyAttention::cost(const Init& init, const Workload& w) {
  return FlashAttnPrefill::cost(core(init), without_contexts(w));
}

Tolerance EncoderOnlyAttention::tolerance(const Init& init, DType dtype) {
  return FlashAttnPrefill::tolerance(core(init), dtype);
}

Tolerance EncoderOnlyAttention::tolerance_on(const Init& init, DType dtype, Args given) {
  return tolerance_on_scores(tolerance(init, dtype), *given[0], *given[1], init.head_size, init.scale);
}

std::vector<Case<EncoderOnlyAttention>> EncoderOnlyAttention::cases() {
  return {
      {"one token", {.num_heads = 1, .head_size = 2, .num_kv_heads = 1}, Workload::batch({{1, 0}})},
      {"ragged",
       {.num_heads = 4, .head_size = 16, .scale = 0.25, .num_kv_heads = 4},
       Workload::batch({{1, 0}, {20, 0}, {3, 0}, {66, 0}})},
      {"odd heads, grouped",
       {.num_heads = 6, .head_size = 10, .scale = 0.3, .num_kv_heads = 3},
       Workload::batch({{17, 0}, {2, 0}})},
      {"heads of 64",
       {.num_heads = 2, .head_size = 64, .scale = 0.125, .num_kv_heads = 2},
       Workload::batch({{70, 0}, {33, 0}})},
  };
}

namespace {

class ComposedEncoderOnlyAttention final : public EncoderOnlyAttention {
 public:
  ComposedEncoderOnlyAttention(const Init& init, Builder& builder)
      : EncoderOnlyAttention(init), flash_attn(builder.child<FlashAttnPrefill>("flash_attn", core(init))) {}

  void forward(Context& ctx, View query, View key, View value, View cu_seqlens, View out) override {
    flash_attn.into(ctx, query.split_last(init_.num_heads, init_.head_size),
                    key.split_last(init_.num_kv_heads, init_.head_size),
                    value.split_last(init_.num_kv_heads, init_.head_size), cu_seqlens, cu_seqlens, OptView(),
                    out.split_last(init_.num_heads, init_.head_size));
  }

 private:
  Op<FlashAttnPrefill> flash_attn;
};

FK_COMPOSITION(EncoderOnlyAttention, ComposedEncoderOnlyAttention);

}  // namespace
}  // namespace fk
