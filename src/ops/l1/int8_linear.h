// Int8Linear: x W^T + b with W in 8-bit integers (ops/formats/int8.cpp).
#pragma once

#include "ops/l1/quantised_linear.h"

namespace fk {

class Int8Linear : public QuantisedLinear {
 public:
  static constexpr std::string_view kName = "int8_linear";
  static constexpr std::string_view kClass = "Int8Linear";

  using QuantisedLinear::QuantisedLinear;
  static std::vector<Case<Int8Linear>> cases();
};

}  // namespace fk
