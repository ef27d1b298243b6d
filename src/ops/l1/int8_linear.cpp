#include "ops/l1/int8_linear.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<Int8Linear>> Int8Linear::cases() { return quantised_linear_cases<Int8Linear>({"int8_channel"}, 72); }

namespace {
using Int8LinearOracle = QuantisedLinearOracle<Int8Linear>;
FK_OPERATOR(Int8Linear, Int8LinearOracle);
}  // namespace
}  // namespace fk
