// FalconMambaForCausalLM: Mamba with norms of the time step, B and C.
#pragma once

#include "ops/l4/mamba_for_causal_lm.h"

namespace fk {

class FalconMambaForCausalLM : public CausalLM<FalconMambaForCausalLM, MambaForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "falcon_mamba_for_causal_lm";
  static constexpr std::string_view kClass = "FalconMambaForCausalLM";
  using CausalLM::CausalLM;

  static MambaDecoderLayer::Init layer(const Init& init, int64_t i) { return MambaForCausalLM::layer(init, i); }
  static Cost layer_cost(const Init& init, int64_t i, const Workload& w) {
    return MambaForCausalLM::layer_cost(init, i, w);
  }
  static std::vector<Case<FalconMambaForCausalLM>> cases();
};

}  // namespace fk
