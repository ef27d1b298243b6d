#include "ops/l4/glm_moe_dsa_for_causal_lm.h"

#include "ops/l1/rms_norm.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<GlmMoeDsaForCausalLM>> GlmMoeDsaForCausalLM::cases() {
  std::vector<Case<GlmMoeDsaForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", small_sparse_latent_model(), w});
  return cases;
}

namespace {
using ComposedGlmMoeDsaForCausalLM = ComposedCausalLM<GlmMoeDsaForCausalLM, DeepseekV32DecoderLayer, RMSNorm>;
FK_COMPOSITION(GlmMoeDsaForCausalLM, ComposedGlmMoeDsaForCausalLM);
}  // namespace
}  // namespace fk
