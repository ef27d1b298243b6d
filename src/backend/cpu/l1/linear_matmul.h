// LinearMatmul: `linear` by one of the matrix products of backend/cpu/matmul.
#pragma once

#include "backend/cpu/matmul/matmul_choice.h"
#include "ops/batch_invariant.h"
#include "ops/l1/linear.h"

namespace fk {

// kMinRows: fewer rows of x than this are left to an implementation that streams the weights.
template <MatmulFunction product, DType kDType, int64_t kMinRows = 0>
class LinearMatmul : public Linear {
 public:
  using Linear::Linear;
  static constexpr DType kNarrow = kDType == DType::kF16 ? DType::kF16 : DType::kBF16;  // what it rounds outputs to

  std::string_view refuse(Args args) const override {
    const View &x = *args[0], &y = *args[1];
    if (x.dtype() != kDType || init_.dtype != kDType)
      return kDType == DType::kBF16  ? "x and the weight are not both bf16"
             : kDType == DType::kF16 ? "x and the weight are not both f16"
                                     : "x and the weight are not both f32";
    if (y.dtype() != DType::kF32 && y.dtype() != kNarrow)
      return kNarrow == DType::kF16 ? "the output is neither f32 nor f16" : "the output is neither f32 nor bf16";
    if (!x.rows_contiguous() || !y.rows_contiguous()) return "rows of x or of the output are not contiguous";
    if (!batch_invariant()) {
      if (x.size(0) < kMinRows) return "so few rows are faster with plain vector instructions";
    } else if (kMinRows > 0 && kDType == DType::kF32) {
      return "a row that is not finite changes how the others are computed";  // see matmul_amx_f32
    }
    return {};
  }

  void forward(Context& ctx, View x, View out) override {
    const View& w = weight();
    product({.m = x.size(0),
             .n = init_.out_features,
             .k = init_.in_features,
             .x = x.data(),
             .x_stride = x.stride(0),
             .w = w.data(),
             .w_stride = w.stride(0),
             .bias = bias_data(),
             .y = out.data(),
             .y_stride = out.stride(0),
             .dtype = kDType,
             .y_dtype = out.dtype()},
            ctx.pool);
  }
};

}  // namespace fk
