#include "ops/l1/ternary_linear.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<TernaryLinear>> TernaryLinear::cases() {
  return quantised_linear_cases<TernaryLinear>({"ternary", "ternary_inverse"}, 96);
}

namespace {
using TernaryLinearOracle = QuantisedLinearOracle<TernaryLinear>;
FK_OPERATOR(TernaryLinear, TernaryLinearOracle);
}  // namespace
}  // namespace fk
