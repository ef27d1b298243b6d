// Glm4MoeForCausalLM: GLM 4.5: experts on all but the first layers, chosen by sigmoid scores with a learned correction.
#pragma once

#include "ops/l3/glm4_moe_decoder_layer.h"
#include "ops/l4/causal_lm.h"
#include "ops/l4/grouped_experts.h"

namespace fk {

struct Glm4MoeForCausalLMInit : DecoderModelInit, GroupedExperts {
  int64_t rotary_dim = 0;       // elements of a head that are rotated; 0: all
  bool attention_bias = false;  // of queries, keys and values
  bool use_qk_norm = false;

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    v("rotary_dim", rotary_dim);
    v("attention_bias", attention_bias);
    v("use_qk_norm", use_qk_norm);
    GroupedExperts::visit(v);
  }
};

class Glm4MoeForCausalLM : public CausalLM<Glm4MoeForCausalLM, Glm4MoeForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "glm4_moe_for_causal_lm";
  static constexpr std::string_view kClass = "Glm4MoeForCausalLM";

  using CausalLM::CausalLM;

  static Glm4MoeDecoderLayer::Init layer(const Init& init, int64_t i);
  static Cost layer_cost(const Init& init, int64_t i, const Workload& w) {
    return Glm4MoeDecoderLayer::cost(layer(init, i), w);
  }
  static std::vector<Case<Glm4MoeForCausalLM>> cases();
};

}  // namespace fk
