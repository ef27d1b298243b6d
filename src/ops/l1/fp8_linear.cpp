#include "ops/l1/fp8_linear.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<Fp8Linear>> Fp8Linear::cases() {
  return quantised_linear_cases<Fp8Linear>({"fp8_block", "fp8_channel", "fp8_tensor"}, 80);
}

namespace {
using Fp8LinearOracle = QuantisedLinearOracle<Fp8Linear>;
FK_OPERATOR(Fp8Linear, Fp8LinearOracle);
}  // namespace
}  // namespace fk
