// CohereForCausalLM: Command R: layer norms, blocks side by side, heads rotated in pairs of neighbours, scaled logits.
#pragma once

#include "ops/l3/cohere_decoder_layer.h"
#include "ops/l4/causal_lm.h"

namespace fk {

// rms_norm_eps is that of the layer norms, layer_norm_eps in config.json.
struct CohereForCausalLMInit : DecoderModelInit {
  bool attention_bias = false;  // of all four projections
  bool use_qk_norm = false;     // norms of each head of queries and keys
  double logit_scale = 1;       // logits are multiplied by it

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    v("attention_bias", attention_bias);
    v("use_qk_norm", use_qk_norm);
    v("logit_scale", logit_scale);
  }
};

class CohereForCausalLM : public CausalLM<CohereForCausalLM, CohereForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "cohere_for_causal_lm";
  static constexpr std::string_view kClass = "CohereForCausalLM";

  using CausalLM::CausalLM;

  static CohereDecoderLayer::Init layer(const Init& init, int64_t i);
  static double logits_scale(const Init& init) { return init.logit_scale; }

  static std::vector<Case<CohereForCausalLM>> cases();
};

}  // namespace fk
