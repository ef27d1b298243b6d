// The common part of GLA and RetNet as language models.
#pragma once

#include "ops/l3/linear_attention_layer.h"
#include "ops/l4/causal_lm.h"

namespace fk {

// num_attention_heads, num_key_value_heads and head_dim of the base are heads and the width of keys.
struct LinearAttentionLMInit : DecoderModelInit {
  int64_t head_v_dim = 0;
  bool use_output_gate = true;
  bool fuse_norm = true;  // as in LinearAttentionInit
  double clamp_min = 0;   // likewise; of GLA

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    v("head_v_dim", head_v_dim);
    v("use_output_gate", use_output_gate);
    v("fuse_norm", fuse_norm);
    v("clamp_min", clamp_min);
  }
};

LinearAttentionLayerInit linear_attention_layer(const LinearAttentionLMInit& init);
// The constructor arguments of the cases of both families.
LinearAttentionLMInit linear_attention_case();

// Self: the family's operator; Layer: its layer.
template <class Self, class Layer>
class LinearAttentionLM : public CausalLM<Self, LinearAttentionLMInit> {
 public:
  using CausalLM<Self, LinearAttentionLMInit>::CausalLM;
  using Init = LinearAttentionLMInit;

  static LinearAttentionLayerInit layer(const Init& init, int64_t) { return linear_attention_layer(init); }
  static Cost layer_cost(const Init& init, int64_t i, const Workload& w) { return Layer::cost(layer(init, i), w); }
  static std::vector<Case<Self>> cases() {
    std::vector<Case<Self>> cases;
    for (const Workload& w : causal_lm_workloads())
      cases.push_back({std::to_string(w.num_sequences()) + " sequences", linear_attention_case(), w});
    return cases;
  }
};

}  // namespace fk
