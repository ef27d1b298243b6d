#include "ops/l4/falcon_mamba_for_causal_lm.h"

#include "ops/l1/rms_norm.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<FalconMambaForCausalLM>> FalconMambaForCausalLM::cases() {
  std::vector<Case<FalconMambaForCausalLM>> cases;
  for (const Case<MambaForCausalLM>& c : MambaForCausalLM::cases()) {
    cases.push_back({c.label, c.init, c.workload});
    cases.back().init.inner_norms = "plain";
  }
  return cases;
}

namespace {
using ComposedFalconMambaForCausalLM = ComposedCausalLM<FalconMambaForCausalLM, MambaDecoderLayer, RMSNorm>;
FK_COMPOSITION(FalconMambaForCausalLM, ComposedFalconMambaForCausalLM);
}  // namespace
}  // namespace fk
