#include "ops/l2/deepseek_v2_mla_attention.h"

#include "ops/l2/mla_queries.h"
#include "ops/l2/row_parallel_linear.h"
#include "ops/register.h"

namespace fk {

MLAAttention::Init DeepseekV2MLAAttention::core(const Init& init) {
  return {.num_heads = rank_share(init.num_heads, init.tp_size, "attention heads"),
          .scale = init.scale > 0 ? init.scale : 1 / std::sqrt(static_cast<double>(init.qk_head_dim())),
          .qk_nope_head_dim = init.qk_nope_head_dim,
          .qk_rope_head_dim = init.qk_rope_head_dim,
          .v_head_dim = init.v_head_dim,
          .kv_lora_rank = init.kv_lora_rank,
          .weight_format = format_of_module(init.weight_format, "kv_b_proj"),
          .dtype = init.dtype};
}

RotaryEmbedding::Init DeepseekV2MLAAttention::rotary_k(const Init& init) {
  return {.head_size = init.qk_rope_head_dim,
          .rotary_dim = init.qk_rope_head_dim,
          .max_position_embeddings = init.max_position,
          .base = init.rope_theta,
          .is_neox_style = init.is_neox_style,
          .rope_scaling = init.rope_scaling,
          .dtype = init.dtype};
}

RotaryEmbedding::Init DeepseekV2MLAAttention::rotary_q(const Init& init) {
  RotaryEmbedding::Init rotary = rotary_k(init);
  rotary.head_size = init.qk_head_dim();
  rotary.rotary_offset = init.qk_nope_head_dim;
  return rotary;
}

OutputSpecs DeepseekV2MLAAttention::outputs(const Init&, Args given) { return {given[1]->spec()}; }

Inputs DeepseekV2MLAAttention::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens()}, DType::kI64}, Generator::metadata(Generator::Kind::kPositions)},
          InputSpec{{{w.num_tokens(), init.hidden_size}, w.dtype}, Generator::normal()}};
}

Cost DeepseekV2MLAAttention::cost(const Init& init, const Workload& w) {
  MLAAttention::Init rank = core(init);
  Cost cost = MLAAttention::cost(rank, w);
  auto T = static_cast<double>(w.num_tokens()), D = static_cast<double>(init.hidden_size),
       size = static_cast<double>(dtype_size(w.dtype));
  int64_t q = rank.num_heads * init.qk_head_dim(), kv = init.kv_lora_rank + init.qk_rope_head_dim,
          o = rank.num_heads * init.v_head_dim;
  auto add = [&](std::string_view module, int64_t rows, int64_t columns) {
    cost.read_bytes += matrix_bytes(format_of_module(init.weight_format, module), rows, columns, w.dtype);
    cost.matrix_flops += 2 * T * static_cast<double>(rows * columns);
  };
  if (init.q_lora_rank > 0) {
    add("q_a_proj", init.q_lora_rank, init.hidden_size);
    add("q_b_proj", q, init.q_lora_rank);
  } else {
    add("q_proj", q, init.hidden_size);
  }
  add("kv_a_proj_with_mqa", kv, init.hidden_size);
  add("o_proj", init.hidden_size, o);
  // Queries, latents and the output of attention are intermediates that need not go through memory.
  cost.read_bytes += size * T * (D - static_cast<double>(q + kv));
  cost.written_bytes += size * T * (D - static_cast<double>(o));
  if (!init.weight_format.empty()) cost.matrix_speedup = kInt8Speedup;
  return cost;
}

Tolerance DeepseekV2MLAAttention::tolerance(const Init& init, DType dtype) {
  return with_rounded_activations(composed_tolerance(dtype, static_cast<double>(init.hidden_size)), init.weight_format);
}

std::vector<Case<DeepseekV2MLAAttention>> DeepseekV2MLAAttention::cases() {
  Init small{.hidden_size = 48,
             .num_heads = 4,
             .qk_nope_head_dim = 16,
             .qk_rope_head_dim = 8,
             .v_head_dim = 16,
             .q_lora_rank = 24,
             .kv_lora_rank = 16};
  Init odd{.hidden_size = 44,
           .num_heads = 3,
           .qk_nope_head_dim = 20,
           .qk_rope_head_dim = 6,
           .v_head_dim = 27,
           .kv_lora_rank = 33,
           .is_neox_style = true,
           .bias = true};
  Init rank = small;
  rank.tp_size = 2;
  rank.reduce_results = false;
  Init plain = odd;
  plain.bias = plain.rotary = false;
  return {
      {"queries through a latent", small, Workload::batch({{1, 20}, {9, 0}, {4, 17}})},
      {"queries at once, odd, biases", odd, Workload::batch({{1, 20}, {7, 0}})},
      {"one of two ranks", rank, Workload::batch({{1, 33}, {5, 9}})},
      {"without rotation", plain, Workload::batch({{1, 20}, {7, 0}, {3, 18}})},
  };
}

namespace {

class ComposedDeepseekV2MLAAttention final : public DeepseekV2MLAAttention {
 public:
  ComposedDeepseekV2MLAAttention(const Init& init, Builder& builder)
      : DeepseekV2MLAAttention(init),
        queries(init, builder),
        attn(builder.child<MLAAttention>("", core(init))),
        o_proj(builder.child<RowParallelLinear>("o_proj", mla_output(init))) {}

  void forward(Context& ctx, View positions, View hidden_states, View out) override {
    View q = queries.project(ctx, positions, hidden_states).q;
    auto [kv_c, k_pe] = queries.latents(ctx, positions, hidden_states);
    o_proj.into(ctx, attn(ctx, q, kv_c, k_pe), out, OptView());
  }

 private:
  MLAQueries queries;
  Op<MLAAttention> attn;
  Op<RowParallelLinear> o_proj;
};

FK_COMPOSITION(DeepseekV2MLAAttention, ComposedDeepseekV2MLAAttention);

}  // namespace
}  // namespace fk
