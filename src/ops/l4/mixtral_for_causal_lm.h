// MixtralForCausalLM: as Mistral, with experts on every layer.
#pragma once

#include "ops/l3/sparse_decoder_layer.h"
#include "ops/l4/causal_lm.h"

namespace fk {

struct MixtralForCausalLMInit : DecoderModelInit {
  int64_t num_local_experts = 0;
  int64_t num_experts_per_tok = 1;
  int64_t sliding_window = 0;  // of every layer; 0: none

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    v("num_local_experts", num_local_experts);
    v("num_experts_per_tok", num_experts_per_tok);
    v("sliding_window", sliding_window);
  }
};

class MixtralForCausalLM : public CausalLM<MixtralForCausalLM, MixtralForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "mixtral_for_causal_lm";
  static constexpr std::string_view kClass = "MixtralForCausalLM";

  using CausalLM::CausalLM;

  static SparseDecoderLayerInit layer(const Init& init, int64_t i);
  static Cost layer_cost(const Init& init, int64_t i, const Workload& w) {
    return SparseDecoderLayer::cost(layer(init, i), w);
  }
  static std::vector<Case<MixtralForCausalLM>> cases();
};

}  // namespace fk
