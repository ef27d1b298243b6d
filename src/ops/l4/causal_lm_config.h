// What the constructor of a causal language model takes: the fields of an HF config.json that change the arithmetic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "ops/rope_scaling.h"

namespace fk {

struct CausalLMConfig {
  std::string architecture = {};  // "LlamaForCausalLM"
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
  bool attention_bias = false;
  bool mlp_bias = false;
  bool tie_word_embeddings = false;
  // Gemma 3 only.
  double rope_local_base_freq = 10000;  // theta of the sliding-window layers
  double query_pre_attn_scalar = 0;     // attention scale is its inverse square root; 0: head_dim
  // Window of the sliding layers (keys a query sees, itself included); 0 if no layer has a window.
  int64_t sliding_window = 0;
  std::vector<uint8_t> layer_is_sliding = {};  // one per layer; empty: none
  // The model of the first of tp_size ranks; partial results are all-reduced unless reduce_results is false.
  int64_t tp_size = 1;
  bool tp_reduce = true;
  DType dtype = DType::kBF16;  // of weights and activations

  friend bool operator==(const CausalLMConfig&, const CausalLMConfig&) = default;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("architecture", architecture);
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
    v("attention_bias", attention_bias);
    v("mlp_bias", mlp_bias);
    v("tie_word_embeddings", tie_word_embeddings);
    v("rope_local_base_freq", rope_local_base_freq);
    v("query_pre_attn_scalar", query_pre_attn_scalar);
    v("sliding_window", sliding_window);
    v("layer_is_sliding", layer_is_sliding);
    v("tp_size", tp_size);
    v("tp_reduce", tp_reduce);
    v("dtype", dtype);
  }
};

}  // namespace fk
