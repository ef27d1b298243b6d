// The call of the streaming product: few rows times matrices of one format.
#pragma once

#include <cstdint>
#include <string_view>

#include "backend/cuda/experts/call.h"
#include "backend/cuda/matmul/stream_weights.h"
#include "core/dtype.h"

namespace fk::cuda {

// With more rows the matrix is better written out and multiplied by a product of elements.
inline constexpr int64_t kMostCodeRows = 16;
inline constexpr int kMostStreamedMatrices = 4;

// One matrix, as stored_codes.cuh describes it.
struct StreamedMatrix {
  const void* codes = nullptr;
  const void* scales = nullptr;
  const float* divisor = nullptr;  // of all scales; null: none
  int rows = 0, steps = 0;
  // Where scales are as stored: scales[(row >> row_shift) * row_stride + (step >> step_shift)].
  int row_shift = 0, row_stride = 0, step_shift = 0;
  int first_tile = 0;    // blocks of the launch before those of this matrix
  int first_column = 0;  // of out, and of the bias
};

// out[:, first_column ..] = x W^T + bias for each matrix. In a gated product there are two, gate and up, of equal rows,
// and out = activation(x gate^T + bias) * (x up^T + bias).
struct StreamedCall {
  const void* x = nullptr;
  const void* bias = nullptr;  // of the dtype of x; may be null
  void* out = nullptr;
  int64_t x_stride = 0, out_stride = 0;
  int tokens = 0, length = 0;  // rows and columns of x
  DType dtype = DType::kBF16;  // of x: bf16 or f16
  bool float_out = false;      // out is f32, else of the dtype of x
  StreamEpilogue epilogue = StreamEpilogue::kPlain;
  int matrices = 0;
  StreamedMatrix matrix[kMostStreamedMatrices];
};

// The streaming product of one packed format.
struct CodeStream {
  std::string_view name;
  int run = 0;  // columns that must divide the length
  void (*multiply)(StreamedCall call, void* stream) = nullptr;
  // With the matrices of experts, packed as one matrix, each with whole octets of rows; null: there is none.
  void (*multiply_experts)(const ExpertsCall& call, const StreamedMatrix& matrix, void* stream) = nullptr;
};

}  // namespace fk::cuda
