#include "ops/l2/qwen3_next_attention.h"

#include "ops/l1/gemma_rms_norm.h"
#include "ops/l1/sigmoid_mul.h"
#include "ops/l2/merged_column_parallel_linear.h"
#include "ops/register.h"

namespace fk {

Cost Qwen3NextAttention::cost(const Init& init, const Workload& w) {
  Cost cost = AttentionBlock::cost(init, w);
  const auto gates = static_cast<double>(init.num_heads * init.head_dim * init.hidden_size);
  cost.read_bytes += gates * static_cast<double>(dtype_size(w.dtype));
  cost.matrix_flops += 2 * static_cast<double>(w.num_tokens()) * gates;
  return cost;
}

std::vector<Case<Qwen3NextAttention>> Qwen3NextAttention::cases() {
  Init c{.hidden_size = 64, .num_heads = 4, .num_kv_heads = 2, .head_dim = 32, .max_position = 512, .rotary_dim = 8};
  Init odd{.hidden_size = 45, .num_heads = 3, .num_kv_heads = 1, .head_dim = 20, .max_position = 512, .rotary_dim = 10};
  odd.bias = odd.bias_o_proj = true;
  return {{"mixed", c, Workload::batch({{1, 30}, {1, 1}, {17, 0}, {5, 33}})},
          {"odd, bias", odd, Workload::batch({{1, 3}, {9, 0}})}};
}

namespace {

class ComposedQwen3NextAttention final : public Qwen3NextAttention {
 public:
  ComposedQwen3NextAttention(const Init& c, Builder& builder)
      : Qwen3NextAttention(c),
        qkv_proj_(builder.child<MergedColumnParallelLinear>(
            "qkv_proj",
            {.input_size = c.hidden_size,
             .output_sizes = {2 * c.num_heads * c.head_dim, c.num_kv_heads * c.head_dim, c.num_kv_heads * c.head_dim},
             .bias = c.bias,
             .dtype = c.dtype})),
        o_proj_(builder.child<RowParallelLinear>("o_proj", {.input_size = c.num_heads * c.head_dim,
                                                            .output_size = c.hidden_size,
                                                            .bias = c.bias_o_proj,
                                                            .dtype = c.dtype})),
        q_norm_(builder.child<GemmaRMSNorm>("q_norm", norm(c))),
        k_norm_(builder.child<GemmaRMSNorm>("k_norm", norm(c))),
        rotary_emb_(builder.child<RotaryEmbedding>("rotary_emb", rotary(c))),
        attn_(builder.child<Attention>("attn", core(c))),
        gate_(builder.child<SigmoidMul>("gate", {})) {
    if (c.tp_size > 1) throw Error("Qwen3NextAttention runs on one rank; use a tp_size of 1.");
    if (!c.weight_format.empty()) throw Error("Qwen3NextAttention has no quantised weights; use elements of a dtype.");
  }

  void forward(Context& ctx, View positions, View hidden_states, View out) override {
    const int64_t H = init_.num_heads, K = init_.num_kv_heads, Dh = init_.head_dim;
    View all = std::get<0>(qkv_proj_(ctx, hidden_states));
    View queries = all.narrow(1, 0, 2 * H * Dh).split_last(H, 2 * Dh);  // each head: query, gate
    View k = all.narrow(1, 2 * H * Dh, K * Dh), v = all.narrow(1, (2 * H + K) * Dh, K * Dh);
    View q = std::get<0>(q_norm_(ctx, queries.narrow(2, 0, Dh))).flatten_last();
    k = std::get<0>(k_norm_(ctx, k.split_last(K, Dh))).flatten_last();
    rotary_emb_(ctx, positions, q, k);
    View attended = attn_(ctx, q, k, v).split_last(H, Dh);
    o_proj_.into(ctx, gate_(ctx, attended, queries.narrow(2, Dh, Dh)).flatten_last(), out, OptView());
  }

 private:
  static GemmaRMSNorm::Init norm(const Init& c) {
    return {.hidden_size = c.head_dim, .eps = c.rms_norm_eps, .dtype = c.dtype};
  }

  Op<MergedColumnParallelLinear> qkv_proj_;
  Op<RowParallelLinear> o_proj_;
  Op<GemmaRMSNorm> q_norm_, k_norm_;
  Op<RotaryEmbedding> rotary_emb_;
  Op<Attention> attn_;
  Op<SigmoidMul> gate_;
};

FK_COMPOSITION(Qwen3NextAttention, ComposedQwen3NextAttention);

}  // namespace
}  // namespace fk
