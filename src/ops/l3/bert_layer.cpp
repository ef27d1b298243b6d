#include "ops/l3/bert_layer.h"

#include "ops/l1/activation.h"
#include "ops/l1/layer_norm.h"
#include "ops/l2/column_parallel_linear.h"
#include "ops/l2/row_parallel_linear.h"
#include "ops/register.h"

namespace fk {

OutputSpecs BertLayer::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs BertLayer::inputs(const Init& init, const Workload& w) { return BertAttention::inputs(init.attention, w); }

Cost BertLayer::cost(const Init& init, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens()), D = static_cast<double>(init.attention.hidden_size),
       F = static_cast<double>(init.intermediate_size);
  auto size = static_cast<double>(dtype_size(w.dtype));
  Cost cost = BertAttention::cost(init.attention, w);
  // Read besides: two matrices, their biases and a norm. The output of attention need not go through memory.
  cost.read_bytes += size * (2 * D * F + F + 3 * D);
  cost.matrix_flops += 4 * T * D * F;
  cost.vector_flops += T * F + 7 * T * D;
  return cost;
}

Tolerance BertLayer::tolerance(const Init& init, DType dtype) {
  Tolerance t = composed_tolerance(dtype, static_cast<double>(init.intermediate_size));
  return {2 * t.relative, 2 * t.of_scale};  // the errors of two blocks
}

std::vector<Case<BertLayer>> BertLayer::cases() {
  std::vector<Case<BertLayer>> cases;
  for (const Workload& w : encoder_workloads())
    cases.push_back({std::to_string(w.num_tokens()) + " tokens",
                     {.attention = {.hidden_size = 64, .num_attention_heads = 4}, .intermediate_size = 170},
                     w});
  cases.push_back({"many tokens",
                   {.attention = {.hidden_size = 96, .num_attention_heads = 4}, .intermediate_size = 264},
                   Workload::batch({{150, 0}, {200, 0}})});
  cases.push_back({"whole tiles of features and keys",
                   {.attention = {.hidden_size = 128, .num_attention_heads = 2}, .intermediate_size = 384},
                   Workload::batch({{150, 0}, {256, 0}, {3, 0}, {384, 0}})});
  cases.push_back({"odd, relu",
                   {.attention = {.hidden_size = 42, .num_attention_heads = 3, .layer_norm_eps = 1e-3},
                    .intermediate_size = 77,
                    .hidden_act = "relu"},
                   Workload::batch({{18, 0}, {7, 0}})});
  return cases;
}

namespace {

class ComposedBertLayer final : public BertLayer {
 public:
  ComposedBertLayer(const Init& c, Builder& builder)
      : BertLayer(c),
        attention(builder.child<BertAttention>("attention", c.attention)),
        intermediate(builder.child<ColumnParallelLinear>("intermediate.dense", {.input_size = c.attention.hidden_size,
                                                                                .output_size = c.intermediate_size,
                                                                                .bias = true,
                                                                                .dtype = c.attention.dtype})),
        activation(builder.child<Activation>("intermediate.activation", {.function = c.hidden_act})),
        output(builder.child<RowParallelLinear>("output.dense", {.input_size = c.intermediate_size,
                                                                 .output_size = c.attention.hidden_size,
                                                                 .bias = true,
                                                                 .dtype = c.attention.dtype})),
        norm(builder.child<LayerNorm>("output.LayerNorm", {.hidden_size = c.attention.hidden_size,
                                                           .eps = c.attention.layer_norm_eps,
                                                           .bias = true,
                                                           .dtype = c.attention.dtype})) {}

  void forward(Context& ctx, View hidden_states, View cu_seqlens, View out) override {
    View attended = attention(ctx, hidden_states, cu_seqlens);
    View wide = activation(ctx, std::get<0>(intermediate(ctx, attended)));
    View narrow = std::get<0>(output(ctx, wide)), sum = ctx.arena.make(out.spec());
    norm.into(ctx, narrow, attended, out, sum);
  }

 private:
  Op<BertAttention> attention;
  Op<ColumnParallelLinear> intermediate;
  Op<Activation> activation;
  Op<RowParallelLinear> output;
  Op<LayerNorm> norm;
};

FK_COMPOSITION(BertLayer, ComposedBertLayer);

}  // namespace
}  // namespace fk
