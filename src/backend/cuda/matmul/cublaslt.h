// CublasLtMatmul: one product through cuBLASLt, with the algorithm that was fastest when tried on this device.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "backend/cuda/matmul/problem.h"

namespace fk::cuda {

// Why cuBLASLt is not used for such a product; empty if it is.
std::string_view cublaslt_refusal(const MatmulProblem& problem, const MatmulOperands& operands);

class CublasLtMatmul {
 public:
  explicit CublasLtMatmul(const MatmulProblem& problem);
  ~CublasLtMatmul();
  CublasLtMatmul(CublasLtMatmul&&) noexcept;
  CublasLtMatmul& operator=(CublasLtMatmul&&) noexcept;

  // The first run autotunes the algorithm, unless an earlier process has; it must not be recorded in a graph. Throws
  // Error where cuBLASLt has none.
  void run(const MatmulOperands& operands, void* stream);
  // Whether it has an algorithm that runs: not every version has FP8 on every device. Like the first run otherwise.
  bool supported(const MatmulOperands& operands, void* stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fk::cuda
