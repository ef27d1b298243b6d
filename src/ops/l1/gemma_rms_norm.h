// GemmaRMSNorm: x / rms(x) * (1 + weight); RMSNorm for weights that are stored minus one.
#pragma once

#include "ops/l1/rms_norm.h"

namespace fk {

class GemmaRMSNorm : public RMSNorm {
 public:
  static constexpr std::string_view kName = "gemma_rms_norm";
  static constexpr std::string_view kClass = "GemmaRMSNorm";
  static constexpr double kWeightOffset = 1;

  using RMSNorm::RMSNorm;

  static std::vector<Case<GemmaRMSNorm>> cases();
};

}  // namespace fk
