// GlmMoeDsaForCausalLM: GLM 5: latent attention over the keys that an indexer chooses, and experts on all but the first layers.
#pragma once

#include "ops/l4/causal_lm.h"
#include "ops/l4/sparse_latent_model.h"

namespace fk {

class GlmMoeDsaForCausalLM : public CausalLM<GlmMoeDsaForCausalLM, SparseLatentModelInit> {
 public:
  static constexpr std::string_view kName = "glm_moe_dsa_for_causal_lm";
  static constexpr std::string_view kClass = "GlmMoeDsaForCausalLM";

  using CausalLM::CausalLM;

  static DeepseekV32DecoderLayer::Init layer(const Init& init, int64_t i) { return init.layer(i); }
  static Cost layer_cost(const Init& init, int64_t i, const Workload& w) {
    return DeepseekV32DecoderLayer::cost(with_formats(layer(init, i), init, i), w);
  }
  static std::vector<Case<GlmMoeDsaForCausalLM>> cases();
};

}  // namespace fk
