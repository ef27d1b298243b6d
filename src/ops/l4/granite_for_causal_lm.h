// GraniteForCausalLM: Granite 3: as Llama, with factors on embeddings, scores, residuals and logits.
#pragma once

#include "ops/l3/granite_decoder_layer.h"
#include "ops/l4/causal_lm.h"

namespace fk {

struct GraniteForCausalLMInit : DecoderModelInit {
  bool attention_bias = false;  // of all four projections
  bool mlp_bias = false;
  double embedding_multiplier = 1;
  double attention_multiplier = 1;  // of the scores, in place of 1 / sqrt(head_dim)
  double residual_multiplier = 1;   // of the outputs of blocks
  double logits_scaling = 1;        // logits are divided by it

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    v("attention_bias", attention_bias);
    v("mlp_bias", mlp_bias);
    v("embedding_multiplier", embedding_multiplier);
    v("attention_multiplier", attention_multiplier);
    v("residual_multiplier", residual_multiplier);
    v("logits_scaling", logits_scaling);
  }
};

class GraniteForCausalLM : public CausalLM<GraniteForCausalLM, GraniteForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "granite_for_causal_lm";
  static constexpr std::string_view kClass = "GraniteForCausalLM";

  using CausalLM::CausalLM;

  static GraniteDecoderLayer::Init layer(const Init& init, int64_t i);
  static double embedding_scale(const Init& init) { return init.embedding_multiplier; }
  static double logits_scale(const Init& init) { return 1 / init.logits_scaling; }

  static std::vector<Case<GraniteForCausalLM>> cases();
};

}  // namespace fk
