// Constructor arguments that all decoder-only language models have. A family's own Init adds what only it has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "ops/formats/format_map.h"
#include "ops/l3/decoder_layer.h"
#include "ops/rope_scaling.h"

namespace fk {

struct DecoderModelInit {
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  RopeScaling rope_scaling = {};
  bool tie_word_embeddings = false;
  // The part of the model that rank tp_rank of tp_size ranks has; partial results are added up, and logits collected,
  // unless tp_reduce is false.
  int64_t tp_size = 1;
  int64_t tp_rank = 0;
  bool tp_reduce = true;
  // As in AttentionBlockInit. Checkpoints of llama.cpp have the rows of queries and keys in the order of pairs.
  bool is_neox_style = true;
  // Of its matrices, by module and layer (ops/formats/format_map.h); empty: elements of dtype.
  std::string weight_format = {};
  // Hidden states that are kept for every token, as states: what goes into these layers, for a head that guesses
  // tokens. The number of layers: what leaves the last one. Empty: none are kept.
  std::vector<int64_t> aux_hidden_state_layers = {};
  DType dtype = DType::kBF16;  // of activations, and of weights without a format

  template <class Visitor>
  void visit(Visitor&& v) {
    v("vocab_size", vocab_size);
    v("hidden_size", hidden_size);
    v("intermediate_size", intermediate_size);
    v("num_hidden_layers", num_hidden_layers);
    v("num_attention_heads", num_attention_heads);
    v("num_key_value_heads", num_key_value_heads);
    v("head_dim", head_dim);
    v("max_position_embeddings", max_position_embeddings);
    v("rms_norm_eps", rms_norm_eps);
    v("rope_theta", rope_theta);
    v("rope_scaling", rope_scaling);
    v("tie_word_embeddings", tie_word_embeddings);
    v("tp_size", tp_size);
    v("tp_rank", tp_rank);
    v("tp_reduce", tp_reduce);
    v("is_neox_style", is_neox_style);
    v("weight_format", weight_format);
    v("aux_hidden_state_layers", aux_hidden_state_layers);
    v("dtype", dtype);
  }
};

// Layers with and without a sliding window in one model.
struct SlidingLayers {
  int64_t sliding_window = 0;                  // keys a query of a sliding layer sees, itself included; 0: none slides
  std::vector<uint8_t> layer_is_sliding = {};  // one per layer; empty: none

  int64_t window_of(int64_t layer) const {
    auto i = static_cast<size_t>(layer);
    return i < layer_is_sliding.size() && layer_is_sliding[i] != 0 ? sliding_window : 0;
  }

  template <class Visitor>
  void visit(Visitor&& v) {
    v("sliding_window", sliding_window);
    v("layer_is_sliding", layer_is_sliding);
  }
};

// The arguments of layer i with the formats of its matrices.
template <class Layer>
Layer with_formats(Layer layer, const DecoderModelInit& init, int64_t i) {
  layer.attention.weight_format = layer.mlp.weight_format = formats_of_layer(init.weight_format, i);
  return layer;
}

// What all layers of a model share; a family adds what differs from layer to layer, and what only it has.
DecoderLayerInit common_layer(const DecoderModelInit& init);

}  // namespace fk
