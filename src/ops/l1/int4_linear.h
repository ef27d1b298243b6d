// Int4Linear: x W^T + b with W in groups of 4-bit integers, as GPTQ, AWQ and compressed-tensors store them
// (ops/formats/int4.cpp).
#pragma once

#include "ops/l1/quantised_linear.h"

namespace fk {

class Int4Linear : public QuantisedLinear {
 public:
  static constexpr std::string_view kName = "int4_linear";
  static constexpr std::string_view kClass = "Int4Linear";

  using QuantisedLinear::QuantisedLinear;
  static std::vector<Case<Int4Linear>> cases();
};

}  // namespace fk
