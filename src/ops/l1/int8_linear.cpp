#include "ops/l1/int8_linear.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<Int8Linear>> Int8Linear::cases() {
  std::vector<Case<Int8Linear>> cases = quantised_linear_cases<Int8Linear>({"int8_channel"}, 96);
  cases.push_back(
      {"odd sizes", {.in_features = 77, .out_features = 131, .weight_format = "int8_channel"}, Workload::tokens(3)});
  return cases;
}

namespace {
using Int8LinearOracle = QuantisedLinearOracle<Int8Linear>;
FK_OPERATOR(Int8Linear, Int8LinearOracle);
}  // namespace
}  // namespace fk
