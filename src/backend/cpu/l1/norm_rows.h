// The kernel behind rms_norm and gemma_rms_norm on CPU; they differ in a constant added to the weights.
#pragma once

#include <string_view>

#include "core/thread_pool.h"
#include "ops/signature.h"

namespace fk {

struct NormRows {
  View x;
  OptView residual;
  View weight;
  View out;
  OptView residual_out;
  double eps = 0;
  float weight_offset = 0;
};

std::string_view refuse_norm(Args args);  // of either operator: x, residual, out, residual_out
void norm_rows(ThreadPool& pool, const NormRows& call);

}  // namespace fk
