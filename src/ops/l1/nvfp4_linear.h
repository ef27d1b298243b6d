// Nvfp4Linear: x W^T + b with W in NVFP4 (ops/formats/nvfp4.cpp).
#pragma once

#include "ops/l1/quantised_linear.h"

namespace fk {

class Nvfp4Linear : public QuantisedLinear {
 public:
  static constexpr std::string_view kName = "nvfp4_linear";
  static constexpr std::string_view kClass = "Nvfp4Linear";

  using QuantisedLinear::QuantisedLinear;
  static std::vector<Case<Nvfp4Linear>> cases();
};

}  // namespace fk
