// Matmul: a product by whichever way suits its number of rows. What linear and every fused block multiply with.
#pragma once

#include <map>

#include "backend/cuda/matmul/cublaslt.h"
#include "backend/cuda/matmul/problem.h"
#include "backend/cuda/matmul/stream_weights.h"
#include "core/tensor.h"
#include "ops/forward_context.h"

namespace fk::cuda {

MatmulProblem problem_of(const View& x, const View& weight, bool bias, const View& out);

// Plans of one weight matrix through cuBLASLt, by number of rows and strides; made when first needed.
class CublasLtPlans {
 public:
  void run(const MatmulProblem& problem, const MatmulOperands& operands, void* stream);

 private:
  std::map<MatmulProblem, CublasLtMatmul> plans_;
};

// Products bounded by reading the weights, by the kernel that streams them for so many rows: why such a product is none
// of them (empty when it is), and the product.
std::string_view streamed_refusal(const MatmulProblem& problem, const MatmulOperands& operands,
                                  StreamEpilogue epilogue);
void multiply_streamed(const MatmulProblem& problem, const MatmulOperands& operands, StreamEpilogue epilogue,
                       void* stream);

class Matmul {
 public:
  // out = x weight^T + bias; bias may be null.
  void run(Context& ctx, const View& x, const View& weight, const void* bias, const View& out);

 private:
  CublasLtPlans plans_;
};

}  // namespace fk::cuda
