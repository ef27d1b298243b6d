#include "ops/l1/fp8_linear.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<Fp8Linear>> Fp8Linear::cases() {
  auto cases = quantised_linear_cases<Fp8Linear>({"fp8_block", "fp8_channel", "fp8_tensor"}, 80);
  // Sizes that tensor cores take.
  Init init;
  init.in_features = 352;
  init.out_features = 144;
  init.weight_format = "fp8_channel";
  cases.push_back({"fp8_channel, many tokens", init, Workload::tokens(50)});
  init.output_sizes = {80, 48, 16};
  init.weight_format = "fp8_tensor";
  init.bias = true;
  cases.push_back({"fp8_tensor, stacked, bias, many tokens", init, Workload::tokens(33)});
  Init one_row;
  one_row.in_features = 160;
  one_row.out_features = 97;
  one_row.output_sizes = {96, 1};
  one_row.weight_format = "fp8_block";
  cases.push_back({"fp8_block, a matrix of one row", one_row, Workload::tokens(3)});
  return cases;
}

namespace {
using Fp8LinearOracle = QuantisedLinearOracle<Fp8Linear>;
FK_OPERATOR(Fp8Linear, Fp8LinearOracle);
}  // namespace
}  // namespace fk
