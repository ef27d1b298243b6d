// Fp8Linear: x W^T + b with W in FP8 e4m3 (ops/formats/fp8.cpp).
#pragma once

#include "ops/l1/quantised_linear.h"

namespace fk {

class Fp8Linear : public QuantisedLinear {
 public:
  static constexpr std::string_view kName = "fp8_linear";
  static constexpr std::string_view kClass = "Fp8Linear";

  using QuantisedLinear::QuantisedLinear;
  static std::vector<Case<Fp8Linear>> cases();
};

}  // namespace fk
