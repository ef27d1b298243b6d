#include "ops/l1/int4_linear.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<Int4Linear>> Int4Linear::cases() {
  return quantised_linear_cases<Int4Linear>({"int4_gptq_g64", "int4_gptq_v2_g32", "int4_awq_g32", "int4_packed_g64",
                                             "int4_packed_asym_g32", "int4_gptq", "int4_packed_g16"},
                                            64);
}

namespace {
using Int4LinearOracle = QuantisedLinearOracle<Int4Linear>;
FK_OPERATOR(Int4Linear, Int4LinearOracle);
}  // namespace
}  // namespace fk
