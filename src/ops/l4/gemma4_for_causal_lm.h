// Gemma4ForCausalLM: the language model of Gemma 4: sliding and global layers whose heads differ in size, experts
// beside the feed-forward blocks, and capped logits.
#pragma once

#include "ops/l3/gemma4_decoder_layer.h"
#include "ops/l4/causal_lm.h"

namespace fk {

// head_dim and num_key_value_heads are those of sliding layers; rope_theta and rope_scaling those of global layers.
struct Gemma4ForCausalLMInit : DecoderModelInit, SlidingLayers {
  double rope_local_base_freq = 10000;  // rope_theta of sliding layers, which have no scaling
  int64_t global_head_dim = 0;
  int64_t num_global_key_value_heads = 0;
  bool attention_k_eq_v = false;  // global layers have no value projection
  bool attention_bias = false;    // of all projections
  int64_t num_experts = 0;        // 0: layers have only the feed-forward block
  int64_t top_k_experts = 1;
  int64_t moe_intermediate_size = 0;   // of an expert
  double final_logit_softcapping = 0;  // 0: none

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    SlidingLayers::visit(v);
    v("rope_local_base_freq", rope_local_base_freq);
    v("global_head_dim", global_head_dim);
    v("num_global_key_value_heads", num_global_key_value_heads);
    v("attention_k_eq_v", attention_k_eq_v);
    v("attention_bias", attention_bias);
    v("num_experts", num_experts);
    v("top_k_experts", top_k_experts);
    v("moe_intermediate_size", moe_intermediate_size);
    v("final_logit_softcapping", final_logit_softcapping);
  }
};

class Gemma4ForCausalLM : public CausalLM<Gemma4ForCausalLM, Gemma4ForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "gemma4_for_causal_lm";
  static constexpr std::string_view kClass = "Gemma4ForCausalLM";

  using CausalLM::CausalLM;

  static Gemma4DecoderLayerInit layer(const Init& init, int64_t i);
  static Cost layer_cost(const Init& init, int64_t i, const Workload& w);
  static double embedding_scale(const Init& init);

  static std::vector<Case<Gemma4ForCausalLM>> cases();
};

}  // namespace fk
