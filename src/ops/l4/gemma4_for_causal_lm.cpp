#include "ops/l4/gemma4_for_causal_lm.h"

#include <cmath>

#include "ops/l1/rms_norm.h"
#include "ops/l1/soft_cap.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<Gemma4ForCausalLM>> Gemma4ForCausalLM::cases() {
  // All experts: with fewer, rounding in bf16 could change the choice, and then the reference computes something else.
  Init c{{.vocab_size = 301,
          .hidden_size = 64,
          .intermediate_size = 100,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 16,
          .max_position_embeddings = 512,
          .rope_theta = 1e6,
          .rope_scaling = {.type = "proportional", .partial_rotary_factor = 0.25}},
         {.sliding_window = 8, .layer_is_sliding = {1, 0}}};
  c.global_head_dim = 32;
  c.num_global_key_value_heads = 1;
  c.attention_k_eq_v = true;
  c.num_experts = c.top_k_experts = 3;
  c.moe_intermediate_size = 36;
  c.final_logit_softcapping = 3;
  Init dense = c;
  dense.num_experts = 0;
  dense.attention_k_eq_v = false;
  dense.final_logit_softcapping = 0;
  std::vector<Case<Gemma4ForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  cases.push_back({"dense, without a cap", dense, causal_lm_workloads().back()});
  return cases;
}

Gemma4DecoderLayerInit Gemma4ForCausalLM::layer(const Init& init, int64_t i) {
  DecoderLayerInit common = common_layer(init);
  Gemma4DecoderLayerInit layer{.attention = {common.attention}, .mlp = common.mlp, .rms_norm_eps = init.rms_norm_eps};
  Gemma4AttentionInit& a = layer.attention;
  a.bias = a.bias_o_proj = init.attention_bias;
  a.scale = 1;  // the norms of queries and keys have it
  a.sliding_window = init.window_of(i);
  if (a.sliding_window > 0) {
    a.rope_theta = init.rope_local_base_freq;
    a.rope_scaling = {};
  } else {
    a.head_dim = init.global_head_dim;
    a.num_kv_heads = init.num_global_key_value_heads;
    a.k_eq_v = init.attention_k_eq_v;
  }
  if (init.num_experts > 0)
    layer.moe = {.hidden_size = init.hidden_size,
                 .num_experts = init.num_experts,
                 .top_k = init.top_k_experts,
                 .intermediate_size = init.moe_intermediate_size,
                 .rms_norm_eps = init.rms_norm_eps,
                 .tp_size = init.tp_size,
                 .tp_rank = init.tp_rank,
                 .reduce_results = init.tp_reduce,
                 .dtype = init.dtype};
  return layer;
}

Cost Gemma4ForCausalLM::layer_cost(const Init& init, int64_t i, const Workload& w) {
  Cost cost = Gemma4DecoderLayer::cost(layer(init, i), w);
  // The model's cost takes away the residual that layers of other families pass on.
  double stream = static_cast<double>(w.num_tokens() * init.hidden_size) * static_cast<double>(dtype_size(init.dtype));
  cost.read_bytes += w.optional_inputs ? stream : 0;
  cost.written_bytes += stream;
  return cost;
}

// As in Gemma 3: checkpoints were trained with the square root rounded to the weights' dtype.
double Gemma4ForCausalLM::embedding_scale(const Init& c) {
  double rounded = 0;
  store_element(&rounded, c.dtype, std::sqrt(static_cast<double>(c.hidden_size)));
  return load_element(&rounded, c.dtype);
}

namespace {

class ComposedGemma4ForCausalLM final : public Gemma4ForCausalLM {
 public:
  ComposedGemma4ForCausalLM(const Init& c, Builder& builder)
      : Gemma4ForCausalLM(c),
        embed_tokens(builder.child<VocabParallelEmbedding>("model.embed_tokens", {.num_embeddings = c.vocab_size,
                                                                                  .embedding_dim = c.hidden_size,
                                                                                  .scale = embedding_scale(c),
                                                                                  .tp_size = c.tp_size,
                                                                                  .tp_rank = c.tp_rank,
                                                                                  .reduce_results = c.tp_reduce,
                                                                                  .dtype = c.dtype})),
        norm(builder.child<RMSNorm>("model.norm",
                                    {.hidden_size = c.hidden_size, .eps = c.rms_norm_eps, .dtype = c.dtype})),
        lm_head(builder.child<ParallelLMHead>(
            "lm_head",
            {.num_embeddings = c.vocab_size, .embedding_dim = c.hidden_size, .tp_size = c.tp_size, .dtype = c.dtype})),
        select(builder.child<IndexSelect>("index_select", {})) {
    check_aux_layers(c);
    if (!c.aux_hidden_state_layers.empty()) keep.emplace(c, builder);
    if (c.final_logit_softcapping > 0)
      soft_cap.emplace(builder.child<SoftCap>("soft_cap", {.cap = c.final_logit_softcapping}));
    if (c.tp_reduce && c.tp_size > 1)
      gather_logits.emplace(builder.child<AllGather>(
          "gather_logits", {.world_size = c.tp_size, .rank = c.tp_rank, .output_size = c.vocab_size}));
    for (int64_t i = 0; i < c.num_hidden_layers; ++i)
      layers.push_back(builder.child<Gemma4DecoderLayer>("model.layers." + std::to_string(i), layer(c, i)));
  }

  void forward(Context& ctx, View input_ids, View positions, View logits_indices, View logits) override {
    View hidden = embed_tokens(ctx, input_ids);
    View spare = ctx.arena.make(hidden.spec());
    auto kept = [&](size_t i) { return own_state(ctx, i); };
    for (size_t i = 0; i < layers.size(); ++i) {
      if (keep) keep->layer(ctx, static_cast<int64_t>(i), hidden, OptView(), kept);
      layers[i].into(ctx, positions, hidden, spare);
      std::swap(hidden, spare);
    }
    if (keep) keep->layer(ctx, std::ssize(layers), hidden, OptView(), kept);
    View normed = std::get<0>(norm(ctx, select(ctx, hidden, logits_indices), OptView()));
    if (gather_logits) {
      View part = lm_head(ctx, normed);
      gather_logits->into(ctx, soft_cap ? (*soft_cap)(ctx, part) : part, logits);
    } else if (soft_cap) {
      soft_cap->into(ctx, lm_head(ctx, normed), logits);
    } else {
      lm_head.into(ctx, normed, logits);
    }
  }

 private:
  Op<VocabParallelEmbedding> embed_tokens;
  std::vector<Op<Gemma4DecoderLayer>> layers;
  Op<RMSNorm> norm;
  Op<ParallelLMHead> lm_head;
  Op<IndexSelect> select;
  std::optional<Op<SoftCap>> soft_cap;
  std::optional<Op<AllGather>> gather_logits;
  std::optional<KeptHiddenStates> keep;
};

FK_COMPOSITION(Gemma4ForCausalLM, ComposedGemma4ForCausalLM);

}  // namespace
}  // namespace fk
