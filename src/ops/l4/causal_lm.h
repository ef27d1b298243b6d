// The common part of the causal language models of all families: signature, cost, and the names of their parts in
// checkpoints.
#pragma once

#include "ops/l1/index_select.h"
#include "ops/l2/parallel_lm_head.h"
#include "ops/l2/vocab_parallel_embedding.h"
#include "ops/l4/causal_lm_config.h"
#include "ops/op.h"

namespace fk {

class CausalLM : public Operator {
 public:
  static constexpr int kLevel = 4;
  using Init = CausalLMConfig;

  // input_ids, positions i64 [T]; logits_indices i64 [L]: the tokens whose logits are wanted -> logits [L, V] of
  // this rank's part of the vocabulary.
  static constexpr std::array kArgs{in("input_ids"), in("positions"), in("logits_indices"), out("logits")};

  explicit CausalLM(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View input_ids, View positions, View logits_indices, View logits) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);

 protected:
  const Init init_;
};

// The parameters to load for a model built from `config`: stacked ones with the checkpoint's names of their parts, and
// without the output head where it is tied to the embedding.
std::vector<ParamSpec> checkpoint_params(const Node& model, const CausalLMConfig& config);

// The name under which a parameter of the tree was loaded.
std::string loaded_name(const std::string& param, const CausalLMConfig& config);

// Test batches for every family: one prompt, ragged prompts, decoding and prefill in one batch.
std::vector<Workload> causal_lm_workloads();
// One token of one sequence: a prompt of one, few keys, and more than one block of a device holds at once. For heads of
// a size that devices have kernels for.
std::vector<Workload> one_token_workloads();

// Layer and Norm differ between families, and so does what the embedding is multiplied by.
template <class T, class Layer, class Norm>
class ComposedCausalLM : public T {
 public:
  ComposedCausalLM(const CausalLMConfig& c, Builder& builder, double embedding_scale = 1)
      : T(c),
        embed_tokens(builder.child<VocabParallelEmbedding>("model.embed_tokens", {.num_embeddings = c.vocab_size,
                                                                                  .embedding_dim = c.hidden_size,
                                                                                  .scale = embedding_scale,
                                                                                  .tp_size = c.tp_size,
                                                                                  .reduce_results = c.tp_reduce,
                                                                                  .dtype = c.dtype})),
        norm(
            builder.child<Norm>("model.norm", {.hidden_size = c.hidden_size, .eps = c.rms_norm_eps, .dtype = c.dtype})),
        lm_head(builder.child<ParallelLMHead>(
            "lm_head",
            {.num_embeddings = c.vocab_size, .embedding_dim = c.hidden_size, .tp_size = c.tp_size, .dtype = c.dtype})),
        select(builder.child<IndexSelect>("index_select", {})) {
    for (int64_t i = 0; i < c.num_hidden_layers; ++i)
      layers.push_back(builder.child<Layer>("model.layers." + std::to_string(i), Layer::Init::of_layer(c, i)));
  }

  void forward(Context& ctx, View input_ids, View positions, View logits_indices, View logits) override {
    View hidden = embed_tokens(ctx, input_ids);
    OptView residual;
    // Layers read one pair of buffers and write the other, so that outputs never alias inputs.
    View spare_hidden = ctx.arena.make(hidden.spec());
    std::array<View, 2> residuals = {ctx.arena.make(hidden.spec()), ctx.arena.make(hidden.spec())};
    for (size_t i = 0; i < layers.size(); ++i) {
      layers[i].into(ctx, positions, hidden, residual, spare_hidden, residuals[i % 2]);
      std::swap(hidden, spare_hidden);
      residual = residuals[i % 2];
    }
    View last = select(ctx, hidden, logits_indices);
    View normed = std::get<0>(norm(ctx, last, select(ctx, *residual, logits_indices)));
    lm_head.into(ctx, normed, logits);
  }

 private:
  Op<VocabParallelEmbedding> embed_tokens;
  std::vector<Op<Layer>> layers;
  Op<Norm> norm;
  Op<ParallelLMHead> lm_head;
  Op<IndexSelect> select;
};

}  // namespace fk
