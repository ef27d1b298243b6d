#include "ops/l3/decoder_layer.h"

namespace fk {

DecoderLayerInit DecoderLayerInit::of_layer(const CausalLMConfig& config, int64_t i) {
  const auto& sliding = config.layer_is_sliding;
  auto layer = static_cast<size_t>(i);
  bool slides = layer < sliding.size() && sliding[layer] != 0;
  DecoderLayerInit init{config, slides ? config.sliding_window : 0};
  init.config.num_hidden_layers = 1;
  init.config.sliding_window = 0;
  init.config.layer_is_sliding = {};
  return init;
}

AttentionBlockInit DecoderLayer::attention(const Init& init) {
  const CausalLMConfig& c = init.config;
  return {.hidden_size = c.hidden_size,
          .num_heads = c.num_attention_heads,
          .num_kv_heads = c.num_key_value_heads,
          .head_dim = c.head_dim,
          .max_position = c.max_position_embeddings,
          .rope_theta = c.rope_theta,
          .rope_scaling = c.rope_scaling,
          .bias = c.attention_bias,
          .rms_norm_eps = c.rms_norm_eps,
          .sliding_window = init.sliding_window,
          .tp_size = c.tp_size,
          .reduce_results = c.tp_reduce,
          .dtype = c.dtype};
}

MlpBlockInit DecoderLayer::mlp(const Init& init) {
  const CausalLMConfig& c = init.config;
  return {.hidden_size = c.hidden_size,
          .intermediate_size = c.intermediate_size,
          .bias = c.mlp_bias,
          .tp_size = c.tp_size,
          .reduce_results = c.tp_reduce,
          .dtype = c.dtype};
}

OutputSpecs DecoderLayer::outputs(const Init&, Args given) { return {given[1]->spec(), given[1]->spec()}; }

Inputs DecoderLayer::inputs(const Init& init, const Workload& w) {
  Inputs inputs = AttentionBlock::inputs(attention(init), w);
  inputs.push_back(w.optional_inputs ? inputs[1] : std::nullopt);
  return inputs;
}

Cost DecoderLayer::cost(const Init& init, const Workload& w) {
  Cost a = AttentionBlock::cost(attention(init), w), m = MlpBlock::cost(mlp(init), w);
  double stream =
      static_cast<double>(w.num_tokens() * init.config.hidden_size) * static_cast<double>(dtype_size(w.dtype));
  // Each part counts its input and output; of those four tensors only two, and the residual's two, enter or leave the
  // layer.
  return {.read_bytes = a.read_bytes + m.read_bytes - (w.optional_inputs ? 0 : stream),
          .written_bytes = a.written_bytes + m.written_bytes,
          .matrix_flops = a.matrix_flops + m.matrix_flops,
          .vector_flops = a.vector_flops + m.vector_flops};
}

Tolerance DecoderLayer::tolerance(const Init& init, DType dtype) {
  Tolerance t = composed_tolerance(dtype, static_cast<double>(init.config.intermediate_size));
  return {2 * t.relative, 2 * t.of_scale};
}

}  // namespace fk
