#include "ops/l3/siglip_encoder_layer.h"

#include "ops/l1/layer_norm.h"
#include "ops/l1/scale_add.h"
#include "ops/register.h"

namespace fk {

OutputSpecs SiglipEncoderLayer::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs SiglipEncoderLayer::inputs(const Init& init, const Workload& w) {
  return SiglipAttention::inputs(init.attention, w);
}

Cost SiglipEncoderLayer::cost(const Init& init, const Workload& w) {
  Cost cost = SiglipAttention::cost(init.attention, w), mlp = SiglipMLP::cost(init.mlp, w);
  auto T = static_cast<double>(w.num_tokens()), D = static_cast<double>(init.attention.hidden_size);
  auto size = static_cast<double>(dtype_size(w.dtype));
  // Two norms; what passes from block to block need not go through memory.
  cost.read_bytes += mlp.read_bytes - size * T * D + size * 4 * D;
  cost.matrix_flops += mlp.matrix_flops;
  cost.vector_flops += mlp.vector_flops + 14 * T * D;
  return cost;
}

Tolerance SiglipEncoderLayer::tolerance(const Init& init, DType dtype) {
  Tolerance t = SiglipMLP::tolerance(init.mlp, dtype);
  return {2 * t.relative, 2 * t.of_scale};  // the errors of two blocks
}

std::vector<Case<SiglipEncoderLayer>> SiglipEncoderLayer::cases() {
  std::vector<Case<SiglipEncoderLayer>> cases;
  for (const Workload& w : encoder_workloads())
    cases.push_back({std::to_string(w.num_tokens()) + " tokens",
                     {.attention = {.hidden_size = 60, .num_attention_heads = 5},
                      .mlp = {.hidden_size = 60, .intermediate_size = 133}},
                     w});
  return cases;
}

namespace {

class ComposedSiglipEncoderLayer final : public SiglipEncoderLayer {
 public:
  ComposedSiglipEncoderLayer(const Init& c, Builder& builder)
      : SiglipEncoderLayer(c),
        layer_norm1(builder.child<LayerNorm>("layer_norm1", norm(c))),
        self_attn(builder.child<SiglipAttention>("self_attn", c.attention)),
        layer_norm2(builder.child<LayerNorm>("layer_norm2", norm(c))),
        mlp(builder.child<SiglipMLP>("mlp", c.mlp)),
        add(builder.child<ScaleAdd>("add", {})) {}

  void forward(Context& ctx, View hidden_states, View cu_seqlens, View out) override {
    View normed = std::get<0>(layer_norm1(ctx, hidden_states));
    View attended = self_attn(ctx, normed, cu_seqlens);
    // The second norm adds the block's input and keeps the sum.
    auto [normed_sum, sum] = layer_norm2(ctx, attended, hidden_states);
    add.into(ctx, mlp(ctx, normed_sum), *sum, out);
  }

 private:
  static LayerNorm::Init norm(const Init& c) {
    return {.hidden_size = c.attention.hidden_size, .eps = c.layer_norm_eps, .bias = true, .dtype = c.attention.dtype};
  }

  Op<LayerNorm> layer_norm1;
  Op<SiglipAttention> self_attn;
  Op<LayerNorm> layer_norm2;
  Op<SiglipMLP> mlp;
  Op<ScaleAdd> add;
};

FK_COMPOSITION(SiglipEncoderLayer, ComposedSiglipEncoderLayer);

}  // namespace
}  // namespace fk
