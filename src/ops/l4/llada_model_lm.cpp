#include "ops/l4/llada_model_lm.h"

#include "ops/l1/index_select.h"
#include "ops/l1/rms_norm.h"
#include "ops/l2/parallel_lm_head.h"
#include "ops/l2/vocab_parallel_embedding.h"
#include "ops/l4/causal_lm.h"
#include "ops/register.h"

namespace fk {

DecoderLayerInit LLaDAModelLM::layer(const Init& init) {
  DecoderLayerInit layer = common_layer(init);
  layer.attention.bias = init.include_qkv_bias;
  layer.attention.bias_o_proj = layer.mlp.bias = init.include_bias;
  return layer;
}

OutputSpecs LLaDAModelLM::outputs(const Init& init, Args given) { return causal_lm_outputs(init, given); }

Inputs LLaDAModelLM::inputs(const Init& init, const Workload& w) {
  Inputs inputs = causal_lm_inputs(init, w);
  inputs.push_back(sequence_starts(w));
  return inputs;
}

Cost LLaDAModelLM::cost(const Init& init, const Workload& w) {
  Workload typed = w;
  typed.dtype = init.dtype;
  return causal_lm_cost(init, w, [&](int64_t) { return LLaDALlamaBlock::cost(layer(init), typed); });
}

Tolerance LLaDAModelLM::tolerance(const Init& init, DType dtype) { return causal_lm_tolerance(init, dtype); }

std::vector<Case<LLaDAModelLM>> LLaDAModelLM::cases() {
  Init c{{.vocab_size = 131,
          .hidden_size = 60,
          .intermediate_size = 133,
          .num_hidden_layers = 2,
          .num_attention_heads = 5,
          .num_key_value_heads = 5,
          .head_dim = 12,
          .max_position_embeddings = 512,
          .rms_norm_eps = 1e-5}};
  Init shared = c;
  shared.num_key_value_heads = 1;
  shared.include_bias = shared.include_qkv_bias = true;
  return {{"one token", c, Workload::batch({{1, 0}})},
          {"ragged", c, Workload::batch({{5, 0}, {19, 0}, {1, 0}})},
          {"shared keys, biases", shared, Workload::batch({{3, 0}, {70, 0}})}};
}

namespace {

class ComposedLLaDAModelLM final : public LLaDAModelLM {
 public:
  ComposedLLaDAModelLM(const Init& c, Builder& builder)
      : LLaDAModelLM(c),
        embed_tokens_(builder.child<VocabParallelEmbedding>(
            "model.embed_tokens", {.num_embeddings = c.vocab_size, .embedding_dim = c.hidden_size, .dtype = c.dtype})),
        norm_(builder.child<RMSNorm>("model.norm",
                                     {.hidden_size = c.hidden_size, .eps = c.rms_norm_eps, .dtype = c.dtype})),
        lm_head_(builder.child<ParallelLMHead>(
            "lm_head", {.num_embeddings = c.vocab_size, .embedding_dim = c.hidden_size, .dtype = c.dtype})),
        select_(builder.child<IndexSelect>("index_select", {})) {
    for (int64_t i = 0; i < c.num_hidden_layers; ++i)
      blocks_.push_back(builder.child<LLaDALlamaBlock>("model.transformer.blocks." + std::to_string(i), layer(c)));
  }

  void forward(Context& ctx, View input_ids, View positions, View logits_indices, View cu_seqlens,
               View logits) override {
    View hidden = embed_tokens_(ctx, input_ids);
    OptView residual;
    // Layers read one pair of buffers and write the other, so that outputs never alias inputs.
    View spare = ctx.arena.make(hidden.spec());
    std::array<View, 2> residuals = {ctx.arena.make(hidden.spec()), ctx.arena.make(hidden.spec())};
    for (size_t i = 0; i < blocks_.size(); ++i) {
      blocks_[i].into(ctx, positions, hidden, cu_seqlens, residual, spare, residuals[i % 2]);
      std::swap(hidden, spare);
      residual = residuals[i % 2];
    }
    View last = select_(ctx, hidden, logits_indices);
    lm_head_.into(ctx, std::get<0>(norm_(ctx, last, select_(ctx, *residual, logits_indices))), logits);
  }

 private:
  Op<VocabParallelEmbedding> embed_tokens_;
  std::vector<Op<LLaDALlamaBlock>> blocks_;
  Op<RMSNorm> norm_;
  Op<ParallelLMHead> lm_head_;
  Op<IndexSelect> select_;
};

FK_COMPOSITION(LLaDAModelLM, ComposedLLaDAModelLM);

}  // namespace
}  // namespace fk
