// Qwen3MoeForCausalLM: Qwen 3 with experts.
#pragma once

#include "ops/l4/causal_lm.h"
#include "ops/l4/expert_layers.h"

namespace fk {

struct Qwen3MoeForCausalLMInit : DecoderModelInit, ExpertLayers {
  int64_t sliding_window = 0;   // of every layer; 0: none
  bool attention_bias = false;  // of all four projections

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    ExpertLayers::visit(v);
    v("sliding_window", sliding_window);
    v("attention_bias", attention_bias);
  }
};

class Qwen3MoeForCausalLM : public CausalLM<Qwen3MoeForCausalLM, Qwen3MoeForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "qwen3_moe_for_causal_lm";
  static constexpr std::string_view kClass = "Qwen3MoeForCausalLM";

  using CausalLM::CausalLM;

  static SparseDecoderLayerInit layer(const Init& init, int64_t i);
  static Cost layer_cost(const Init& init, int64_t i, const Workload& w) {
    return SparseDecoderLayer::cost(layer(init, i), w);
  }
  static std::vector<Case<Qwen3MoeForCausalLM>> cases();
};

}  // namespace fk
