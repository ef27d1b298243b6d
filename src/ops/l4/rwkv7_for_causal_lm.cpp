#include "ops/l4/rwkv7_for_causal_lm.h"

#include "core/error.h"
#include "ops/l1/layer_norm.h"
#include "ops/register.h"

namespace fk {

RWKV7Block::Init RWKV7ForCausalLM::layer(const Init& c, int64_t i) {
  return {.attention = {.hidden_size = c.hidden_size,
                        .head_dim = c.head_dim,
                        .decay_low_rank_dim = c.decay_low_rank_dim,
                        .gate_low_rank_dim = c.gate_low_rank_dim,
                        .a_low_rank_dim = c.a_low_rank_dim,
                        .v_low_rank_dim = c.v_low_rank_dim,
                        .norm_eps = c.rms_norm_eps,
                        .fuse_norm = c.fuse_norm,
                        .first_layer = i == 0,
                        .dtype = c.dtype},
          .mlp = {.hidden_size = c.hidden_size, .intermediate_size = c.intermediate_size, .dtype = c.dtype},
          .norm_eps = c.rms_norm_eps,
          .norm_bias = c.norm_bias,
          .pre_norm = i == 0 && c.norm_first};
}

Tolerance RWKV7ForCausalLM::tolerance(const Init& init, DType dtype) {
  Tolerance t = causal_lm_tolerance(init, dtype);
  // As of a layer; in f32 less, so that logits rounded to bf16 are far outside.
  return {t.relative, (dtype_size(dtype) < 4 ? 3 : 1.5) * t.of_scale};
}

std::vector<Case<RWKV7ForCausalLM>> RWKV7ForCausalLM::cases() {
  Init c{{.vocab_size = 319,
          .hidden_size = 64,
          .intermediate_size = 160,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 4,
          .head_dim = 16,
          .max_position_embeddings = 512,
          .rms_norm_eps = 1e-2}};
  c.decay_low_rank_dim = c.a_low_rank_dim = 8;
  c.gate_low_rank_dim = 12;
  c.v_low_rank_dim = 6;
  std::vector<Case<RWKV7ForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  return cases;
}

namespace {

class ComposedRWKV7ForCausalLM final : public RWKV7ForCausalLM {
 public:
  ComposedRWKV7ForCausalLM(const Init& c, Builder& builder)
      : RWKV7ForCausalLM(c),
        embed_tokens_(builder.child<VocabParallelEmbedding>(
            "model.embed_tokens", {.num_embeddings = c.vocab_size, .embedding_dim = c.hidden_size, .dtype = c.dtype})),
        norm_(builder.child<LayerNorm>(
            "model.norm",
            {.hidden_size = c.hidden_size, .eps = c.rms_norm_eps, .bias = c.norm_bias, .dtype = c.dtype})),
        lm_head_(builder.child<ParallelLMHead>(
            "lm_head", {.num_embeddings = c.vocab_size, .embedding_dim = c.hidden_size, .dtype = c.dtype})),
        select_(builder.child<IndexSelect>("index_select", {})) {
    refuse_aux_layers(c, kClass);
    if (c.tp_size > 1) throw Error("RWKV7ForCausalLM runs on one rank; use a tp_size of 1.");
    if (!c.weight_format.empty()) throw Error("RWKV7ForCausalLM has no quantised weights; use elements of a dtype.");
    for (int64_t i = 0; i < c.num_hidden_layers; ++i)
      layers_.push_back(builder.child<RWKV7Block>("model.layers." + std::to_string(i), layer(c, i)));
  }

  void forward(Context& ctx, View input_ids, View, View logits_indices, View logits) override {
    View hidden = embed_tokens_(ctx, input_ids);
    OptView residual, v_first;
    View first_values = ctx.arena.make(hidden.spec());
    // As in ComposedCausalLM: outputs never alias inputs.
    View spare_hidden = ctx.arena.make(hidden.spec());
    std::array<View, 2> residuals = {ctx.arena.make(hidden.spec()), ctx.arena.make(hidden.spec())};
    for (size_t i = 0; i < layers_.size(); ++i) {
      layers_[i].into(ctx, hidden, residual, v_first, spare_hidden, residuals[i % 2],
                      i == 0 ? OptView(first_values) : OptView());
      std::swap(hidden, spare_hidden);
      residual = residuals[i % 2];
      v_first = first_values;
    }
    View last = select_(ctx, hidden, logits_indices);
    lm_head_.into(ctx, std::get<0>(norm_(ctx, last, select_(ctx, *residual, logits_indices))), logits);
  }

 private:
  Op<VocabParallelEmbedding> embed_tokens_;
  std::vector<Op<RWKV7Block>> layers_;
  Op<LayerNorm> norm_;
  Op<ParallelLMHead> lm_head_;
  Op<IndexSelect> select_;
};

FK_COMPOSITION(RWKV7ForCausalLM, ComposedRWKV7ForCausalLM);

}  // namespace
}  // namespace fk
