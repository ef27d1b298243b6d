// The common part of the causal language models of all families: signature, cost and composition.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "ops/l1/all_gather.h"
#include "ops/l1/index_select.h"
#include "ops/l1/indexer_k_cache.h"
#include "ops/l1/scale_add.h"
#include "ops/l2/parallel_lm_head.h"
#include "ops/l2/vocab_parallel_embedding.h"
#include "ops/l4/decoder_model_init.h"
#include "ops/op.h"

namespace fk {

// The parts of the contract that need no more than what all models have, and the cost of layer i.
OutputSpecs causal_lm_outputs(const DecoderModelInit& init, Args given);
Inputs causal_lm_inputs(const DecoderModelInit& init, const Workload& workload);
Cost causal_lm_cost(const DecoderModelInit& init, const Workload& workload,
                    const std::function<Cost(int64_t i)>& layer_cost);
Tolerance causal_lm_tolerance(const DecoderModelInit& init, DType dtype);
// Of the hidden states that are kept: "aux_hidden_states.0" and so on, [D] of every token; none where none are.
inline constexpr std::string_view kAuxHiddenStates = "aux_hidden_states";
std::vector<StateSpec> causal_lm_states(const DecoderModelInit& init);
// Throws Error where a layer is named that the model does not have.
void check_aux_layers(const DecoderModelInit& init);
// The same where any is named, for a composition that keeps none; `model` is its class.
void refuse_aux_layers(const DecoderModelInit& init, std::string_view model);
// Of the output head: the embedding's where the two are one matrix.
std::string head_format(const DecoderModelInit& init);

// Self: the family's operator, which has `static ... layer(const Init&, int64_t i)`, the arguments of its layer i.
// InitType: its constructor arguments, DecoderModelInit with what the family adds.
template <class Self, class InitType>
class CausalLM : public Operator {
 public:
  static constexpr int kLevel = 4;
  using Init = InitType;

  // input_ids, positions i64 [T]; logits_indices i64 [L]: the tokens whose logits are wanted -> logits [L, V], without
  // tp_reduce of this rank's part of the vocabulary.
  static constexpr std::array kArgs{in("input_ids"), in("positions"), in("logits_indices"), out("logits")};

  explicit CausalLM(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View input_ids, View positions, View logits_indices, View logits) = 0;

  static std::vector<StateSpec> states(const Init& init) { return causal_lm_states(init); }
  static OutputSpecs outputs(const Init& init, Args given) { return causal_lm_outputs(init, given); }
  static Inputs inputs(const Init& init, const Workload& w) { return causal_lm_inputs(init, w); }
  static Cost cost(const Init& init, const Workload& w) {
    return causal_lm_cost(init, w, [&](int64_t i) { return Self::layer_cost(init, i, w); });
  }
  static Tolerance tolerance(const Init& init, DType dtype) { return causal_lm_tolerance(init, dtype); }

  // A family whose layers have other costs hides it with its own.
  static Cost layer_cost(const Init& init, int64_t i, const Workload& w) {
    return DecoderLayer::cost(with_formats(DecoderLayerInit(Self::layer(init, i)), init, i), w);
  }
  // What token embeddings are multiplied by. A family with another factor hides it with its own.
  static double embedding_scale(const Init&) { return 1; }
  // The same of logits.
  static double logits_scale(const Init&) { return 1; }

 protected:
  const Init init_;
};

// Test batches for every family: one prompt, ragged prompts, decoding and prefill in one batch.
std::vector<Workload> causal_lm_workloads();
// One token of one sequence: a prompt of one, few keys, and more than one block of a device holds at once. For heads of
// a size that devices have kernels for.
std::vector<Workload> one_token_workloads();

// Stores the hidden states that a model keeps, on the way through its layers.
class KeptHiddenStates {
 public:
  KeptHiddenStates(const DecoderModelInit& init, Builder& builder)
      : layers_(init.aux_hidden_state_layers),
        sum_(builder.child<ScaleAdd>("aux_hidden_states.sum", {})),
        store_(builder.child<IndexerKCache>("aux_hidden_states.store", {.head_dim = init.hidden_size})) {}

  // hidden and residual: what layer i is given. state(place): where the place-th of the layers is kept.
  template <class State>
  void layer(Context& ctx, int64_t i, const View& hidden, const OptView& residual, const State& state) const {
    for (size_t place = 0; place < layers_.size(); ++place)
      if (layers_[place] == i)
        store_(ctx, residual ? sum_(ctx, hidden, residual) : hidden, state(place), ctx.attention->slot_mapping);
  }

 private:
  const std::vector<int64_t> layers_;
  Op<ScaleAdd> sum_;
  Op<IndexerKCache> store_;
};

// T: the family's operator. Layer and Norm differ between families.
template <class T, class Layer, class Norm>
class ComposedCausalLM : public T {
 public:
  ComposedCausalLM(const typename T::Init& c, Builder& builder)
      : T(c),
        embed_tokens(builder.child<VocabParallelEmbedding>(
            "model.embed_tokens", {.num_embeddings = c.vocab_size,
                                   .embedding_dim = c.hidden_size,
                                   .scale = T::embedding_scale(c),
                                   .tp_size = c.tp_size,
                                   .tp_rank = c.tp_rank,
                                   .reduce_results = c.tp_reduce,
                                   .weight_format = format_of_module(c.weight_format, "embed_tokens"),
                                   .dtype = c.dtype})),
        norm(
            builder.child<Norm>("model.norm", {.hidden_size = c.hidden_size, .eps = c.rms_norm_eps, .dtype = c.dtype})),
        lm_head(builder.child<ParallelLMHead>("lm_head", {.num_embeddings = c.vocab_size,
                                                          .embedding_dim = c.hidden_size,
                                                          .tp_size = c.tp_size,
                                                          .weight_format = head_format(c),
                                                          .dtype = c.dtype})),
        select(builder.child<IndexSelect>("index_select", {})) {
    check_aux_layers(c);
    if (!c.aux_hidden_state_layers.empty()) keep.emplace(c, builder);
    if (double factor = T::logits_scale(c); factor != 1)
      scale_logits.emplace(builder.child<ScaleAdd>("scale_logits", {.scale = factor}));
    if (c.tp_reduce && c.tp_size > 1)
      gather_logits.emplace(builder.child<AllGather>(
          "gather_logits", {.world_size = c.tp_size, .rank = c.tp_rank, .output_size = c.vocab_size}));
    for (int64_t i = 0; i < c.num_hidden_layers; ++i)
      layers.push_back(builder.child<Layer>("model.layers." + std::to_string(i), with_formats(T::layer(c, i), c, i)));
  }

  void forward(Context& ctx, View input_ids, View positions, View logits_indices, View logits) override {
    View hidden = embed_tokens(ctx, input_ids);
    OptView residual;
    // Layers read one pair of buffers and write the other, so that outputs never alias inputs.
    View spare_hidden = ctx.arena.make(hidden.spec());
    std::array<View, 2> residuals = {ctx.arena.make(hidden.spec()), ctx.arena.make(hidden.spec())};
    auto kept = [&](size_t i) { return this->own_state(ctx, i); };
    for (size_t i = 0; i < layers.size(); ++i) {
      if (keep) keep->layer(ctx, static_cast<int64_t>(i), hidden, residual, kept);
      layers[i].into(ctx, positions, hidden, residual, spare_hidden, residuals[i % 2]);
      std::swap(hidden, spare_hidden);
      residual = residuals[i % 2];
    }
    if (keep) keep->layer(ctx, std::ssize(layers), hidden, residual, kept);
    View last = select(ctx, hidden, logits_indices);
    View normed = std::get<0>(norm(ctx, last, select(ctx, *residual, logits_indices)));
    if (gather_logits) {
      View part = lm_head(ctx, normed);
      gather_logits->into(ctx, scale_logits ? (*scale_logits)(ctx, part, OptView()) : part, logits);
    } else if (scale_logits) {
      scale_logits->into(ctx, lm_head(ctx, normed), OptView(), logits);
    } else {
      lm_head.into(ctx, normed, logits);
    }
  }

 private:
  Op<VocabParallelEmbedding> embed_tokens;
  std::vector<Op<Layer>> layers;
  Op<Norm> norm;
  Op<ParallelLMHead> lm_head;
  Op<IndexSelect> select;
  std::optional<Op<ScaleAdd>> scale_logits;
  std::optional<Op<AllGather>> gather_logits;
  std::optional<KeptHiddenStates> keep;
};

}  // namespace fk
