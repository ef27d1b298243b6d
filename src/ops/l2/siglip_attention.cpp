#include "ops/l2/siglip_attention.h"

#include "ops/l2/qkv_parallel_linear.h"
#include "ops/l2/row_parallel_linear.h"
#include "ops/register.h"

namespace fk {

EncoderOnlyAttention::Init SiglipAttention::core(const Init& init) {
  return BertAttention::core({.hidden_size = init.hidden_size, .num_attention_heads = init.num_attention_heads});
}

OutputSpecs SiglipAttention::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs SiglipAttention::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), init.hidden_size}, w.dtype}, Generator::normal()}, sequence_starts(w)};
}

Cost SiglipAttention::cost(const Init& init, const Workload& w) { return encoder_attention_cost(core(init), w); }

Tolerance SiglipAttention::tolerance(const Init& init, DType dtype) {
  return composed_tolerance(dtype, static_cast<double>(init.hidden_size));
}

std::vector<Case<SiglipAttention>> SiglipAttention::cases() {
  std::vector<Case<SiglipAttention>> cases;
  for (const Workload& w : encoder_workloads())
    cases.push_back({std::to_string(w.num_tokens()) + " tokens", {.hidden_size = 64, .num_attention_heads = 4}, w});
  cases.push_back({"odd heads", {.hidden_size = 42, .num_attention_heads = 3}, Workload::batch({{18, 0}, {18, 0}})});
  return cases;
}

namespace {

class ComposedSiglipAttention final : public SiglipAttention {
 public:
  ComposedSiglipAttention(const Init& c, Builder& builder)
      : SiglipAttention(c),
        qkv_proj(builder.child<QKVParallelLinear>("qkv_proj", {.hidden_size = c.hidden_size,
                                                               .head_size = core(c).head_size,
                                                               .total_num_heads = c.num_attention_heads,
                                                               .total_num_kv_heads = c.num_attention_heads,
                                                               .bias = true,
                                                               .dtype = c.dtype})),
        attn(builder.child<EncoderOnlyAttention>("attn", core(c))),
        out_proj(builder.child<RowParallelLinear>(
            "out_proj", {.input_size = c.hidden_size, .output_size = c.hidden_size, .bias = true, .dtype = c.dtype})) {}

  void forward(Context& ctx, View hidden_states, View cu_seqlens, View out) override {
    int64_t D = init_.hidden_size;
    View qkv = std::get<0>(qkv_proj(ctx, hidden_states));
    View attended = attn(ctx, qkv.narrow(1, 0, D), qkv.narrow(1, D, D), qkv.narrow(1, 2 * D, D), cu_seqlens);
    out_proj.into(ctx, attended, out, OptView());
  }

 private:
  Op<QKVParallelLinear> qkv_proj;
  Op<EncoderOnlyAttention> attn;
  Op<RowParallelLinear> out_proj;
};

FK_COMPOSITION(SiglipAttention, ComposedSiglipAttention);

}  // namespace
}  // namespace fk
