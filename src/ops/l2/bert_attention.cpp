#include "ops/l2/bert_attention.h"

#include <cmath>

#include "ops/l1/layer_norm.h"
#include "ops/l2/qkv_parallel_linear.h"
#include "ops/l2/row_parallel_linear.h"
#include "ops/register.h"

namespace fk {

std::vector<Workload> encoder_workloads() {
  return {Workload::batch({{1, 0}}), Workload::batch({{5, 0}, {19, 0}, {1, 0}}), Workload::batch({{3, 0}, {70, 0}})};
}

Cost encoder_attention_cost(const EncoderOnlyAttention::Init& core, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens()), D = static_cast<double>(core.num_heads * core.head_size);
  auto size = static_cast<double>(dtype_size(w.dtype));
  Cost cost = EncoderOnlyAttention::cost(core, w);
  // Queries, keys, values and the output of attention need not go through memory.
  cost.read_bytes = size * (4 * D * D + 4 * D + T * D);
  cost.written_bytes = size * T * D;
  cost.matrix_flops += 8 * T * D * D;
  return cost;
}

EncoderOnlyAttention::Init BertAttention::core(const Init& init) {
  int64_t head_size = init.hidden_size / init.num_attention_heads;
  return {.num_heads = init.num_attention_heads,
          .head_size = head_size,
          .scale = 1 / std::sqrt(static_cast<double>(head_size)),
          .num_kv_heads = init.num_attention_heads};
}

OutputSpecs BertAttention::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs BertAttention::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), init.hidden_size}, w.dtype}, Generator::normal()}, sequence_starts(w)};
}

Cost BertAttention::cost(const Init& init, const Workload& w) {
  Cost cost = encoder_attention_cost(core(init), w);
  auto D = static_cast<double>(init.hidden_size);
  cost.read_bytes += 2 * D * static_cast<double>(dtype_size(w.dtype));
  cost.vector_flops += 7 * D * static_cast<double>(w.num_tokens());
  return cost;
}

Tolerance BertAttention::tolerance(const Init& init, DType dtype) {
  return composed_tolerance(dtype, static_cast<double>(init.hidden_size));
}

std::vector<Case<BertAttention>> BertAttention::cases() {
  std::vector<Case<BertAttention>> cases;
  for (const Workload& w : encoder_workloads())
    cases.push_back({std::to_string(w.num_tokens()) + " tokens", {.hidden_size = 64, .num_attention_heads = 4}, w});
  cases.push_back({"odd heads", {.hidden_size = 42, .num_attention_heads = 3}, Workload::batch({{18, 0}, {7, 0}})});
  return cases;
}

namespace {

class ComposedBertAttention final : public BertAttention {
 public:
  ComposedBertAttention(const Init& c, Builder& builder)
      : BertAttention(c),
        qkv_proj(builder.child<QKVParallelLinear>("self.qkv_proj", {.hidden_size = c.hidden_size,
                                                                    .head_size = core(c).head_size,
                                                                    .total_num_heads = c.num_attention_heads,
                                                                    .total_num_kv_heads = c.num_attention_heads,
                                                                    .bias = true,
                                                                    .dtype = c.dtype})),
        attn(builder.child<EncoderOnlyAttention>("self.attn", core(c))),
        dense(builder.child<RowParallelLinear>(
            "output.dense",
            {.input_size = c.hidden_size, .output_size = c.hidden_size, .bias = true, .dtype = c.dtype})),
        norm(builder.child<LayerNorm>(
            "output.LayerNorm",
            {.hidden_size = c.hidden_size, .eps = c.layer_norm_eps, .bias = true, .dtype = c.dtype})) {}

  void forward(Context& ctx, View hidden_states, View cu_seqlens, View out) override {
    int64_t D = init_.hidden_size;
    View qkv = std::get<0>(qkv_proj(ctx, hidden_states));
    View attended = attn(ctx, qkv.narrow(1, 0, D), qkv.narrow(1, D, D), qkv.narrow(1, 2 * D, D), cu_seqlens);
    View projected = std::get<0>(dense(ctx, attended)), sum = ctx.arena.make(out.spec());
    norm.into(ctx, projected, hidden_states, out, sum);
  }

 private:
  Op<QKVParallelLinear> qkv_proj;
  Op<EncoderOnlyAttention> attn;
  Op<RowParallelLinear> dense;
  Op<LayerNorm> norm;
};

FK_COMPOSITION(BertAttention, ComposedBertAttention);

}  // namespace
}  // namespace fk
