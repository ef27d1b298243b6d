// The description of one matrix product out = x W^T + b.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace fk::cuda {

// x [rows, in_features] and out [rows, out_features] have rows this many elements apart; W [out_features, in_features]
// is dense.
struct MatmulProblem {
  int64_t rows = 0;
  int64_t out_features = 0;
  int64_t in_features = 0;
  int64_t x_stride = 0;
  int64_t out_stride = 0;
  DType dtype = DType::kBF16;      // of x, W and b; FP8 e4m3: of x and W, with scales for each row of both
  DType out_dtype = DType::kBF16;  // dtype, or f32; with FP8 bf16 or f16, and that of b, or f32
  bool bias = false;
  bool gelu = false;  // its tanh form, of the sums with their bias; only cuBLASLt has it

  friend auto operator<=>(const MatmulProblem&, const MatmulProblem&) = default;
};

struct MatmulOperands {
  const void* x = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;
  void* out = nullptr;
  const float* x_scales = nullptr;  // of FP8
  const float* weight_scales = nullptr;
};

}  // namespace fk::cuda
