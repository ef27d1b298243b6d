#include "ops/l4/deepseek_v32_for_causal_lm.h"

#include "ops/l1/rms_norm.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<DeepseekV32ForCausalLM>> DeepseekV32ForCausalLM::cases() {
  std::vector<Case<DeepseekV32ForCausalLM>> cases;
  for (const Workload& w : causal_lm_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", small_sparse_latent_model(), w});
  return cases;
}

namespace {
using ComposedDeepseekV32ForCausalLM = ComposedCausalLM<DeepseekV32ForCausalLM, DeepseekV32DecoderLayer, RMSNorm>;
FK_COMPOSITION(DeepseekV32ForCausalLM, ComposedDeepseekV32ForCausalLM);
}  // namespace
}  // namespace fk
