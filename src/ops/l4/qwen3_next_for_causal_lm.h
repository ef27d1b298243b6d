// Qwen3NextForCausalLM: gated delta nets, on every few layers gated attention, and experts.
#pragma once

#include "ops/l3/qwen3_next_decoder_layer.h"
#include "ops/l4/causal_lm.h"
#include "ops/l4/expert_layers.h"

namespace fk {

struct Qwen3NextForCausalLMInit : DecoderModelInit, ExpertLayers {
  int64_t shared_expert_intermediate_size = 0;
  bool attention_bias = false;
  int64_t rotary_dim = 0;
  std::vector<uint8_t> layer_is_linear = {};  // one per layer
  int64_t linear_conv_kernel_dim = 4;
  int64_t linear_key_head_dim = 128;
  int64_t linear_value_head_dim = 128;
  int64_t linear_num_key_heads = 16;
  int64_t linear_num_value_heads = 32;

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    ExpertLayers::visit(v);
    v("shared_expert_intermediate_size", shared_expert_intermediate_size);
    v("attention_bias", attention_bias);
    v("rotary_dim", rotary_dim);
    v("layer_is_linear", layer_is_linear);
    v("linear_conv_kernel_dim", linear_conv_kernel_dim);
    v("linear_key_head_dim", linear_key_head_dim);
    v("linear_value_head_dim", linear_value_head_dim);
    v("linear_num_key_heads", linear_num_key_heads);
    v("linear_num_value_heads", linear_num_value_heads);
  }
};

class Qwen3NextForCausalLM : public CausalLM<Qwen3NextForCausalLM, Qwen3NextForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "qwen3_next_for_causal_lm";
  static constexpr std::string_view kClass = "Qwen3NextForCausalLM";

  using CausalLM::CausalLM;

  static Qwen3NextDecoderLayerInit layer(const Init& init, int64_t i);
  static Cost layer_cost(const Init& init, int64_t i, const Workload& w) {
    return Qwen3NextDecoderLayer::cost(layer(init, i), w);
  }
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<Qwen3NextForCausalLM>> cases();
};

}  // namespace fk
