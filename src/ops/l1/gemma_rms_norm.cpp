#include "ops/l1/gemma_rms_norm.h"

#include "ops/l1/rms_norm_oracle.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<GemmaRMSNorm>> GemmaRMSNorm::cases() {
  std::vector<Case<GemmaRMSNorm>> cases;
  for (const auto& c : RMSNorm::cases()) cases.push_back({c.label, c.init, c.workload});
  return cases;
}

namespace {
using GemmaRMSNormOracle = NormOracle<GemmaRMSNorm>;
FK_OPERATOR(GemmaRMSNorm, GemmaRMSNormOracle);
}  // namespace
}  // namespace fk
