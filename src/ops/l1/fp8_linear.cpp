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
  return cases;
}

namespace {
using Fp8LinearOracle = QuantisedLinearOracle<Fp8Linear>;
FK_OPERATOR(Fp8Linear, Fp8LinearOracle);
}  // namespace
}  // namespace fk
