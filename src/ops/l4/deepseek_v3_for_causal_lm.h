// DeepseekV3ForCausalLM: latent attention, and experts on all but the first layers.
#pragma once

#include "ops/l3/deepseek_v2_decoder_layer.h"
#include "ops/l4/causal_lm.h"
#include "ops/l4/grouped_experts.h"
#include "ops/l4/mla_model_init.h"

namespace fk {

struct DeepseekV3ForCausalLMInit : DecoderModelInit, LatentAttention, GroupedExperts {
  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    LatentAttention::visit(v);
    GroupedExperts::visit(v);
  }
};

class DeepseekV3ForCausalLM : public CausalLM<DeepseekV3ForCausalLM, DeepseekV3ForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "deepseek_v3_for_causal_lm";
  static constexpr std::string_view kClass = "DeepseekV3ForCausalLM";

  using CausalLM::CausalLM;

  static DeepseekV2DecoderLayer::Init layer(const Init& init, int64_t i);
  static Cost layer_cost(const Init& init, int64_t i, const Workload& w) {
    return DeepseekV2DecoderLayer::cost(with_formats(layer(init, i), init, i), w);
  }
  static std::vector<Case<DeepseekV3ForCausalLM>> cases();
};

}  // namespace fk
