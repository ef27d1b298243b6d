#include "ops/l4/eagle3_llama_for_causal_lm.h"

#include "core/error.h"
#include "ops/l1/draft_to_target.h"
#include "ops/l1/index_select.h"
#include "ops/l1/rms_norm.h"
#include "ops/l2/parallel_lm_head.h"
#include "ops/l2/replicated_linear.h"
#include "ops/l2/vocab_parallel_embedding.h"
#include "ops/l4/causal_lm.h"
#include "ops/register.h"

namespace fk {

Eagle3DecoderLayerInit Eagle3LlamaForCausalLM::layer(const Init& init) {
  Eagle3DecoderLayerInit layer{common_layer(init)};
  layer.attention.bias = layer.attention.bias_o_proj = init.attention_bias;
  layer.attention.qk_norm = init.qk_norm;
  layer.mlp.bias = init.mlp_bias;
  layer.norm_before_residual = init.norm_before_residual;
  return layer;
}

OutputSpecs Eagle3LlamaForCausalLM::outputs(const Init& init, Args given) {
  const DType logits = init.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const int64_t rows = given[3]->size(0);
  return {TensorSpec{{rows, init.vocab_size}, logits}, TensorSpec{{rows, init.hidden_size}, given[2]->dtype()}};
}

Inputs Eagle3LlamaForCausalLM::inputs(const Init& init, const Workload& w) {
  Inputs inputs = causal_lm_inputs(init, w);
  const int64_t width = w.optional_inputs ? init.hidden_size : init.features();  // its own hidden states
  inputs.insert(inputs.begin() + 2, InputSpec{{{w.num_tokens(), width}, init.dtype}, Generator::normal()});
  return inputs;
}

Cost Eagle3LlamaForCausalLM::cost(const Init& init, const Workload& w) {
  Workload typed = w;
  typed.dtype = init.dtype;
  DecoderModelInit head = init;
  head.vocab_size = init.draft_vocab_size;
  Cost cost = causal_lm_cost(head, w, [&](int64_t) { return Eagle3DecoderLayer::cost(layer(init), typed); });
  // The list of tokens, the logits of the whole vocabulary, and the product that comes first.
  const auto T = static_cast<double>(w.num_tokens()), S = static_cast<double>(w.num_sequences());
  const auto D = static_cast<double>(init.hidden_size), size = static_cast<double>(dtype_size(init.dtype));
  const auto width = static_cast<double>(w.optional_inputs ? init.hidden_size : init.features());
  cost.written_bytes += 4 * S * static_cast<double>(init.vocab_size - init.draft_vocab_size) + S * D * size;
  cost.read_bytes += T * width * size;
  if (w.optional_inputs) return cost;
  cost.read_bytes += width * D * size;
  cost.matrix_flops += 2 * T * width * D;
  return cost;
}

Tolerance Eagle3LlamaForCausalLM::tolerance(const Init& init, DType dtype) {
  Tolerance t = causal_lm_tolerance(init, dtype);
  return {2 * t.relative, 2 * t.of_scale};
}

std::vector<Case<Eagle3LlamaForCausalLM>> Eagle3LlamaForCausalLM::cases() {
  Init c{{.vocab_size = 131,
          .hidden_size = 64,
          .intermediate_size = 176,
          .num_hidden_layers = 1,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 16,
          .max_position_embeddings = 512}};
  c.draft_vocab_size = 48;
  c.target_hidden_size = 64;
  Init all = c;
  all.draft_vocab_size = all.vocab_size;
  all.target_hidden_size = 40;
  all.norm_before_residual = all.qk_norm = all.attention_bias = all.mlp_bias = true;
  std::vector<Case<Eagle3LlamaForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  Workload further = Workload::batch({{1, 18}, {1, 3}});
  further.optional_inputs = true;
  cases.push_back({"its own hidden states", c, further});
  cases.push_back({"whole vocabulary, norms and biases", all, causal_lm_workloads()[2]});
  return cases;
}

namespace {

class ComposedEagle3LlamaForCausalLM final : public Eagle3LlamaForCausalLM {
 public:
  ComposedEagle3LlamaForCausalLM(const Init& c, Builder& builder)
      : Eagle3LlamaForCausalLM(c),
        embed_tokens_(builder.child<VocabParallelEmbedding>(
            "embed_tokens", {.num_embeddings = c.vocab_size, .embedding_dim = c.hidden_size, .dtype = c.dtype})),
        fc_(builder.child<ReplicatedLinear>(
            "fc", {.input_size = c.features(), .output_size = c.hidden_size, .dtype = c.dtype})),
        layer_(builder.child<Eagle3DecoderLayer>(c.layer_name, layer(c))),
        norm_(builder.child<RMSNorm>("norm", {.hidden_size = c.hidden_size, .eps = c.rms_norm_eps, .dtype = c.dtype})),
        lm_head_(builder.child<ParallelLMHead>(
            "lm_head", {.num_embeddings = c.draft_vocab_size, .embedding_dim = c.hidden_size, .dtype = c.dtype})),
        select_(builder.child<IndexSelect>("index_select", {})) {
    if (c.tp_size > 1) throw Error("An EAGLE-3 head runs on one rank; use a tp_size of 1.");
    if (!c.weight_format.empty()) throw Error("An EAGLE-3 head has no quantised weights; use elements of a dtype.");
    if (c.num_hidden_layers != 1) throw Error("An EAGLE-3 head has one layer, not {}.", c.num_hidden_layers);
    if (c.features() == c.hidden_size)
      throw Error("Hidden states of the target and of the head have one size, {}; they must differ.", c.hidden_size);
    refuse_aux_layers(c, kClass);
    if (c.draft_vocab_size != c.vocab_size)
      to_target_.emplace(
          builder.child<DraftToTarget>("", {.draft_vocab_size = c.draft_vocab_size, .vocab_size = c.vocab_size}));
  }

  void forward(Context& ctx, View input_ids, View positions, View hidden_states, View logits_indices, View logits,
               View last_hidden_states) override {
    const bool of_target = hidden_states.size(1) == init_.features();
    View hidden = of_target ? std::get<0>(fc_(ctx, hidden_states)) : hidden_states;
    auto [out, residual] = layer_(ctx, positions, embed_tokens_(ctx, input_ids), hidden);
    View normed = ctx.arena.make(last_hidden_states.spec());
    norm_.into(ctx, select_(ctx, out, logits_indices), select_(ctx, residual, logits_indices), normed,
               last_hidden_states);
    if (to_target_)
      to_target_->into(ctx, lm_head_(ctx, normed), logits);
    else
      lm_head_.into(ctx, normed, logits);
  }

 private:
  Op<VocabParallelEmbedding> embed_tokens_;
  Op<ReplicatedLinear> fc_;
  Op<Eagle3DecoderLayer> layer_;
  Op<RMSNorm> norm_;
  Op<ParallelLMHead> lm_head_;
  Op<IndexSelect> select_;
  std::optional<Op<DraftToTarget>> to_target_;
};

FK_COMPOSITION(Eagle3LlamaForCausalLM, ComposedEagle3LlamaForCausalLM);

}  // namespace
}  // namespace fk
