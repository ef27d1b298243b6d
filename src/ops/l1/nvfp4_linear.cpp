#include "ops/l1/nvfp4_linear.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<Nvfp4Linear>> Nvfp4Linear::cases() { return quantised_linear_cases<Nvfp4Linear>({"nvfp4"}, 48); }

namespace {
using Nvfp4LinearOracle = QuantisedLinearOracle<Nvfp4Linear>;
FK_OPERATOR(Nvfp4Linear, Nvfp4LinearOracle);
}  // namespace
}  // namespace fk
