#include "ops/l4/causal_lm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "ops/formats/weight_format.h"

namespace fk {

OutputSpecs causal_lm_outputs(const DecoderModelInit& init, Args given) {
  DType dtype = init.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  int64_t columns = init.tp_reduce ? init.vocab_size : rank_vocab(init.vocab_size, init.tp_size);
  return {TensorSpec{{given[2]->size(0), columns}, dtype}};
}

std::vector<StateSpec> causal_lm_states(const DecoderModelInit& init) {
  std::vector<StateSpec> states;
  for (size_t i = 0; i < init.aux_hidden_state_layers.size(); ++i)
    states.push_back({fmt::format("{}.{}", kAuxHiddenStates, i), StateKind::kPerToken, {init.hidden_size}});
  return states;
}

void check_aux_layers(const DecoderModelInit& init) {
  for (int64_t layer : init.aux_hidden_state_layers)
    if (layer < 0 || layer > init.num_hidden_layers)
      throw Error("Hidden states of layer {} are wanted, and the model has {} layers.", layer, init.num_hidden_layers);
}

void refuse_aux_layers(const DecoderModelInit& init, std::string_view model) {
  if (!init.aux_hidden_state_layers.empty())
    throw Error("{} does not give the hidden states of its layers, which an EAGLE-3 head needs.", model);
}

Inputs causal_lm_inputs(const DecoderModelInit& init, const Workload& w) {
  using Kind = Generator::Kind;
  return {InputSpec{{{w.num_tokens()}, DType::kI64}, Generator::integers(0, init.vocab_size)},
          InputSpec{{{w.num_tokens()}, DType::kI64}, Generator::metadata(Kind::kPositions)},
          InputSpec{{{w.num_sequences()}, DType::kI64}, Generator::metadata(Kind::kLogitsIndices)}};
}

Cost causal_lm_cost(const DecoderModelInit& init, const Workload& w, const std::function<Cost(int64_t i)>& layer_cost) {
  auto T = static_cast<double>(w.num_tokens()), S = static_cast<double>(w.num_sequences());
  auto D = static_cast<double>(init.hidden_size), V = static_cast<double>(rank_vocab(init.vocab_size, init.tp_size));
  auto size = static_cast<double>(dtype_size(init.dtype));
  // This rank's embedding rows, unless they are the head's own; the head's matrix and the logits. Tensors between
  // layers need not go through memory.
  double rows = init.tie_word_embeddings ? 0 : distinct_rows(V, T / static_cast<double>(init.tp_size));
  double row = matrix_bytes(format_of_module(init.weight_format, "embed_tokens"), 1, init.hidden_size, init.dtype);
  double head =
      matrix_bytes(head_format(init), rank_vocab(init.vocab_size, init.tp_size), init.hidden_size, init.dtype);
  Cost cost{.read_bytes = rows * row + head, .written_bytes = 4 * S * V, .matrix_flops = 2 * S * V * D};
  for (int64_t i = 0; i < init.num_hidden_layers; ++i) {
    Cost layer = layer_cost(i);
    double stream = T * D * size;
    cost.read_bytes += layer.read_bytes - (w.optional_inputs ? 2 : 1) * stream;
    cost.written_bytes += layer.written_bytes - 2 * stream;
    cost.matrix_flops += layer.matrix_flops;
    cost.vector_flops += layer.vector_flops;
    cost.matrix_speedup = std::max(cost.matrix_speedup, layer.matrix_speedup);
  }
  return cost;
}

Tolerance causal_lm_tolerance(const DecoderModelInit& init, DType dtype) {
  // Rounding errors of the layers add up like independent errors.
  Tolerance t = with_rounded_activations(composed_tolerance(dtype, static_cast<double>(init.intermediate_size)),
                                         init.weight_format);
  double layers = 2 * std::sqrt(static_cast<double>(init.num_hidden_layers));
  return {layers * t.relative, layers * t.of_scale};
}

std::string head_format(const DecoderModelInit& init) {
  return format_of_module(init.weight_format, init.tie_word_embeddings ? "embed_tokens" : "lm_head");
}

DecoderLayerInit common_layer(const DecoderModelInit& c) {
  return {.attention = {.hidden_size = c.hidden_size,
                        .num_heads = c.num_attention_heads,
                        .num_kv_heads = c.num_key_value_heads,
                        .head_dim = c.head_dim,
                        .max_position = c.max_position_embeddings,
                        .rope_theta = c.rope_theta,
                        .rope_scaling = c.rope_scaling,
                        .is_neox_style = c.is_neox_style,
                        .rms_norm_eps = c.rms_norm_eps,
                        .tp_size = c.tp_size,
                        .tp_rank = c.tp_rank,
                        .reduce_results = c.tp_reduce,
                        .dtype = c.dtype},
          .mlp = {.hidden_size = c.hidden_size,
                  .intermediate_size = c.intermediate_size,
                  .tp_size = c.tp_size,
                  .tp_rank = c.tp_rank,
                  .reduce_results = c.tp_reduce,
                  .dtype = c.dtype},
          .rms_norm_eps = c.rms_norm_eps};
}

std::vector<Workload> causal_lm_workloads() {
  return {Workload::batch({{7, 0}}), Workload::batch({{5, 0}, {12, 0}, {1, 0}}),
          Workload::batch({{1, 18}, {1, 3}, {6, 0}, {4, 21}})};
}

std::vector<Workload> one_token_workloads() {
  return {Workload::batch({{1, 0}}), Workload::batch({{1, 40}}), Workload::batch({{1, 300}})};
}

}  // namespace fk
