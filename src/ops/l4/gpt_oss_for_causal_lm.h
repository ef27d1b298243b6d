// GptOssForCausalLM: gpt-oss: experts on every layer, attention sinks, and a window on every other layer.
#pragma once

#include "ops/l3/gpt_oss_decoder_layer.h"
#include "ops/l4/causal_lm.h"

namespace fk {

struct GptOssForCausalLMInit : DecoderModelInit, SlidingLayers {
  int64_t num_local_experts = 0;
  int64_t num_experts_per_tok = 1;
  double swiglu_limit = 7;
  bool attention_bias = true;       // of all four projections
  std::string experts_format = {};  // of the matrices of the experts (ops/formats); empty: elements of dtype

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    SlidingLayers::visit(v);
    v("num_local_experts", num_local_experts);
    v("num_experts_per_tok", num_experts_per_tok);
    v("swiglu_limit", swiglu_limit);
    v("attention_bias", attention_bias);
    v("experts_format", experts_format);
  }
};

class GptOssForCausalLM : public CausalLM<GptOssForCausalLM, GptOssForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "gpt_oss_for_causal_lm";
  static constexpr std::string_view kClass = "GptOssForCausalLM";

  using CausalLM::CausalLM;

  static GptOssDecoderLayer::Init layer(const Init& init, int64_t i);
  static Cost layer_cost(const Init& init, int64_t i, const Workload& w) {
    return GptOssDecoderLayer::cost(layer(init, i), w);
  }
  static std::vector<Case<GptOssForCausalLM>> cases();
};

}  // namespace fk
