// What the operators act(gate) * up have in common: x [T, 2 F] holds both, out is [T, F].
#pragma once

#include "ops/contract.h"

namespace fk::gate_and_mul {

inline OutputSpecs outputs(Args given) {
  return {TensorSpec{{given[0]->size(0), given[0]->size(1) / 2}, given[0]->dtype()}};
}

inline Inputs inputs(const Workload& w, double deviation = 2) {
  return {InputSpec{{{w.num_tokens(), 2 * w.width}, w.dtype}, Generator::normal(0, deviation)}};
}

inline Cost cost(const Workload& w, double flops_per_element) {
  auto n = static_cast<double>(w.num_tokens() * w.width);
  auto size = static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = 2 * n * size, .written_bytes = n * size, .vector_flops = flops_per_element * n};
}

}  // namespace fk::gate_and_mul
