// QuantisedProduct: x W^T + b with the stacked matrices of a quantised layer. Used by every quantised linear operator
// and by fused blocks.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/cuda/matmul/matmul.h"
#include "backend/cuda/quantised/matrix.h"
#include "ops/forward_context.h"

namespace fk::cuda {

class QuantisedProduct {
 public:
  // One after the other, in the order of out's columns.
  void add(std::string_view format, const StoredMatrix& matrix) { add(make_matrix(format, matrix)); }
  void add(std::unique_ptr<QuantisedMatrix> matrix) { matrices_.push_back(std::move(matrix)); }
  void clear() { matrices_.clear(); }

  // Why few rows of such x cannot be streamed; empty if they can. With a gated epilogue there are two matrices of equal
  // rows, and out has the columns of one.
  std::string_view stream_refusal(const View& x, const View& out, StreamEpilogue epilogue) const;
  void stream(Context& ctx, const View& x, const void* bias, const View& out, StreamEpilogue epilogue);

  // For many rows and FP8 codes with a scale for each row of the matrix: why it is not possible. multiply_fp8 rounds x
  // to FP8 and returns false where the library cannot multiply it, after all.
  std::string_view fp8_refusal(const View& x, const View& out, bool bias) const;
  bool multiply_fp8(Context& ctx, const View& x, const void* bias, const View& out);

  // For any number of rows: the matrices are written out as elements of x's dtype, some rows at a time.
  void write_out(Context& ctx, const View& x, const void* bias, const View& out);

  // By one of the three.
  void run(Context& ctx, const View& x, const void* bias, const View& out);

 private:
  std::vector<std::unique_ptr<QuantisedMatrix>> matrices_;
  CublasLtPlans plans_;
};

// What kernels of all quantised products need: known dtypes, rows without gaps, a bias of x's dtype.
std::string_view quantised_call_refusal(const View& x, const View& out, bool bias, DType bias_dtype);

}  // namespace fk::cuda
