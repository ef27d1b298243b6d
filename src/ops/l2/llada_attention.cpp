#include "ops/l2/llada_attention.h"

#include <cmath>

#include "core/error.h"
#include "ops/register.h"

namespace fk {

EncoderOnlyAttention::Init LLaDAAttention::core(const Init& init) {
  return {.num_heads = init.num_heads,
          .head_size = init.head_dim,
          .scale = 1 / std::sqrt(static_cast<double>(init.head_dim)),
          .num_kv_heads = init.num_kv_heads};
}

Inputs LLaDAAttention::inputs(const Init& init, const Workload& w) {
  Inputs inputs = AttentionBlock::inputs(init, w);
  inputs.push_back(sequence_starts(w));
  return inputs;
}

Cost LLaDAAttention::cost(const Init& init, const Workload& w) {
  const auto T = static_cast<double>(w.num_tokens()), D = static_cast<double>(init.hidden_size),
             Q = static_cast<double>(init.num_heads * init.head_dim),
             K = static_cast<double>(init.num_kv_heads * init.head_dim),
             size = static_cast<double>(dtype_size(w.dtype));
  Cost cost = EncoderOnlyAttention::cost(core(init), w);
  // Queries, keys, values and the output of attention need not go through memory.
  cost.read_bytes = size * (2 * D * (Q + K) + T * D);
  cost.written_bytes = size * T * D;
  cost.matrix_flops += 4 * T * D * (Q + K);
  return cost;
}

std::vector<Case<LLaDAAttention>> LLaDAAttention::cases() {
  Init c{.hidden_size = 64, .num_heads = 4, .num_kv_heads = 4, .head_dim = 16, .max_position = 512};
  Init odd{.hidden_size = 45,
           .num_heads = 3,
           .num_kv_heads = 1,
           .head_dim = 14,
           .max_position = 512,
           .rope_theta = 500000,
           .bias = true,
           .bias_o_proj = true};
  return {{"one token", c, Workload::batch({{1, 0}})},
          {"ragged", c, Workload::batch({{5, 0}, {19, 0}, {1, 0}})},
          {"odd, shared keys, biases", odd, Workload::batch({{3, 0}, {70, 0}})}};
}

namespace {

class ComposedLLaDAAttention final : public LLaDAAttention {
 public:
  ComposedLLaDAAttention(const Init& c, Builder& builder)
      : LLaDAAttention(c),
        qkv_proj_(builder.child<QKVParallelLinear>("qkv_proj", {.hidden_size = c.hidden_size,
                                                                .head_size = c.head_dim,
                                                                .total_num_heads = c.num_heads,
                                                                .total_num_kv_heads = c.num_kv_heads,
                                                                .bias = c.bias,
                                                                .dtype = c.dtype})),
        rotary_emb_(builder.child<RotaryEmbedding>("rotary_emb", AttentionBlock::rotary(c))),
        attn_(builder.child<EncoderOnlyAttention>("attn", core(c))),
        attn_out_(builder.child<RowParallelLinear>("attn_out", {.input_size = c.num_heads * c.head_dim,
                                                                .output_size = c.hidden_size,
                                                                .bias = c.bias_o_proj,
                                                                .dtype = c.dtype})) {
    if (c.tp_size > 1) throw Error("LLaDAAttention runs on one rank; use a tp_size of 1.");
    if (!c.weight_format.empty()) throw Error("LLaDAAttention has no quantised weights; use elements of a dtype.");
  }

  void forward(Context& ctx, View positions, View hidden_states, View cu_seqlens, View out) override {
    const int64_t q_size = init_.num_heads * init_.head_dim, kv_size = init_.num_kv_heads * init_.head_dim;
    View qkv = std::get<0>(qkv_proj_(ctx, hidden_states));
    View q = qkv.narrow(1, 0, q_size), k = qkv.narrow(1, q_size, kv_size), v = qkv.narrow(1, q_size + kv_size, kv_size);
    rotary_emb_(ctx, positions, q, k);
    attn_out_.into(ctx, attn_(ctx, q, k, v, cu_seqlens), out, OptView());
  }

 private:
  Op<QKVParallelLinear> qkv_proj_;
  Op<RotaryEmbedding> rotary_emb_;
  Op<EncoderOnlyAttention> attn_;
  Op<RowParallelLinear> attn_out_;
};

FK_COMPOSITION(LLaDAAttention, ComposedLLaDAAttention);

}  // namespace
}  // namespace fk
