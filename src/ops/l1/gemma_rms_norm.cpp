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

void define_gemma_rms_norm(const GemmaRMSNorm::Init& init, Definition& d) { define_norm<GemmaRMSNorm>(init, d); }
FK_DEFINITION(GemmaRMSNorm, define_gemma_rms_norm);
}  // namespace
}  // namespace fk
