// TernaryLinear: x W^T + b with W in -1, 0 and 1 (ops/formats/ternary.cpp).
#pragma once

#include "ops/l1/quantised_linear.h"

namespace fk {

class TernaryLinear : public QuantisedLinear {
 public:
  static constexpr std::string_view kName = "ternary_linear";
  static constexpr std::string_view kClass = "TernaryLinear";

  using QuantisedLinear::QuantisedLinear;
  static std::vector<Case<TernaryLinear>> cases();
};

}  // namespace fk
