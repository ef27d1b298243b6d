// RMSNorm, and the norms that differ from it in kWeightOffset, on CUDA: a row is read once and kept in registers.
#pragma once

#include "ops/l1/rms_norm.h"

namespace fk::cuda {

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
void norm_rows(const NormRows& call, void* stream);

template <class Norm>
class NormRowInRegisters final : public Norm {
 public:
  using Norm::Norm;

  std::string_view refuse(Args args) const override {
    if (args[0]->dtype() != this->init_.dtype) return "x must have the dtype of the weight";
    return refuse_norm(args);
  }

  void forward(Context& ctx, View x, OptView residual, View out, OptView residual_out) override {
    norm_rows({x, residual, this->weight(), out, residual_out, this->init_.eps, Norm::kWeightOffset}, ctx.stream);
  }
};

}  // namespace fk::cuda
