// Glm4MoeForCausalLM: GLM 4.5: experts on all but the first layers, chosen by sigmoid scores with a learned correction.
#pragma once

#include "ops/l3/glm4_moe_decoder_layer.h"
#include "ops/l4/causal_lm.h"

namespace fk {

struct Glm4MoeForCausalLMInit : DecoderModelInit {
  int64_t rotary_dim = 0;       // elements of a head that are rotated; 0: all
  bool attention_bias = false;  // of queries, keys and values
  bool use_qk_norm = false;
  int64_t first_k_dense_replace = 1;  // layers before the first one with experts
  int64_t n_routed_experts = 0;
  int64_t num_experts_per_tok = 1;
  int64_t moe_intermediate_size = 0;  // of an expert
  int64_t n_shared_experts = 1;       // that all tokens use, together one block so many times as wide
  int64_t n_group = 1;
  int64_t topk_group = 1;
  bool norm_topk_prob = true;  // the weights of a token's experts add up to one before they are scaled
  double routed_scaling_factor = 1;

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    v("rotary_dim", rotary_dim);
    v("attention_bias", attention_bias);
    v("use_qk_norm", use_qk_norm);
    v("first_k_dense_replace", first_k_dense_replace);
    v("n_routed_experts", n_routed_experts);
    v("num_experts_per_tok", num_experts_per_tok);
    v("moe_intermediate_size", moe_intermediate_size);
    v("n_shared_experts", n_shared_experts);
    v("n_group", n_group);
    v("topk_group", topk_group);
    v("norm_topk_prob", norm_topk_prob);
    v("routed_scaling_factor", routed_scaling_factor);
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
