// Matmul: selects the kernel by the number of rows. Used by linear and every fused block.
#pragma once

#include <map>

#include "backend/cuda/matmul/cublaslt.h"
#include "backend/cuda/matmul/problem.h"
#include "backend/cuda/matmul/stream_weights.h"
#include "core/tensor.h"
#include "ops/forward_context.h"

namespace fk::cuda {

MatmulProblem problem_of(const View& x, const View& weight, bool bias, const View& out);

// Plans of one weight matrix through cuBLASLt, by number of rows and strides; created on first use.
class CublasLtPlans {
 public:
  void run(const MatmulProblem& problem, const MatmulOperands& operands, void* stream);
  bool supported(const MatmulProblem& problem, const MatmulOperands& operands, void* stream);

 private:
  CublasLtMatmul& plan(const MatmulProblem& problem);
  std::map<MatmulProblem, CublasLtMatmul> plans_;
};

// Products limited by the bandwidth of the weights, with the streaming kernel for this number of rows: why such a
// product is not supported (empty if it is), and the product.
std::string_view streamed_refusal(const MatmulProblem& problem, const MatmulOperands& operands,
                                  StreamEpilogue epilogue);
void multiply_streamed(const MatmulProblem& problem, const MatmulOperands& operands, StreamEpilogue epilogue,
                       void* stream);

class Matmul {
 public:
  // out = x weight^T + bias; bias may be null.
  void run(Context& ctx, const View& x, const View& weight, const void* bias, const View& out);
  // The same for a weight that a kernel of this stream writes: the streaming kernels read weights before the kernel in
  // front of them has ended, so they are not used.
  void run_written(Context& ctx, const View& x, const View& weight, const void* bias, const View& out);

 private:
  CublasLtPlans plans_;
};

}  // namespace fk::cuda
