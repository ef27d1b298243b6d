// RMSNorm, and the norms that differ from it in kWeightOffset, on CPU: rows are distributed over the threads.
#pragma once

#include "ops/l1/rms_norm.h"

namespace fk {

struct NormRows {
  View x;
  OptView residual;
  View weight;
  View out;
  OptView residual_out;
  double eps = 0;
  double weight_offset = 0;
};

std::string_view refuse_norm(Args args);
void norm_rows(ThreadPool& pool, const NormRows& call);

template <class Norm>
class NormRowPerThread final : public Norm {
 public:
  using Norm::Norm;

  std::string_view refuse(Args args) const override { return refuse_norm(args); }

  void forward(Context& ctx, View x, OptView residual, View out, OptView residual_out) override {
    norm_rows(ctx.pool, {x, residual, this->weight(), out, residual_out, this->init_.eps, Norm::kWeightOffset});
  }
};

}  // namespace fk
