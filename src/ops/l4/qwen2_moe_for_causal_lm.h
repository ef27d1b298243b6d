// Qwen2MoeForCausalLM: Qwen 1.5 and 2 with experts, one of them shared by all tokens.
#pragma once

#include "ops/l4/causal_lm.h"
#include "ops/l4/expert_layers.h"

namespace fk {

struct Qwen2MoeForCausalLMInit : DecoderModelInit, SlidingLayers, ExpertLayers {
  int64_t shared_expert_intermediate_size = 0;
  bool qkv_bias = true;  // of queries, keys and values

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    SlidingLayers::visit(v);
    ExpertLayers::visit(v);
    v("shared_expert_intermediate_size", shared_expert_intermediate_size);
    v("qkv_bias", qkv_bias);
  }
};

class Qwen2MoeForCausalLM : public CausalLM<Qwen2MoeForCausalLM, Qwen2MoeForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "qwen2_moe_for_causal_lm";
  static constexpr std::string_view kClass = "Qwen2MoeForCausalLM";

  using CausalLM::CausalLM;

  static SparseDecoderLayerInit layer(const Init& init, int64_t i);
  static Cost layer_cost(const Init& init, int64_t i, const Workload& w) {
    return SparseDecoderLayer::cost(layer(init, i), w);
  }
  static std::vector<Case<Qwen2MoeForCausalLM>> cases();
};

}  // namespace fk
