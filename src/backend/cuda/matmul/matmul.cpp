#include "backend/cuda/matmul/matmul.h"

#include "backend/cuda/matmul/stream_weights.h"
#include "backend/cuda/matmul/tiled.h"

namespace fk::cuda {

MatmulProblem problem_of(const View& x, const View& weight, bool bias, const View& out) {
  return {.rows = x.size(0),
          .out_features = weight.size(0),
          .in_features = weight.size(1),
          .x_stride = x.size(0) > 1 ? x.stride(0) : x.size(1),
          .out_stride = out.size(0) > 1 ? out.stride(0) : out.size(1),
          .dtype = x.dtype(),
          .out_dtype = out.dtype(),
          .bias = bias};
}

void CublasLtPlans::run(const MatmulProblem& problem, const MatmulOperands& operands, void* stream) {
  auto at = plans_.find(problem);
  if (at == plans_.end()) at = plans_.emplace(problem, CublasLtMatmul(problem)).first;
  at->second.run(operands, stream);
}

void Matmul::run(Context& ctx, const View& x, const View& weight, const void* bias, const View& out) {
  MatmulProblem problem = problem_of(x, weight, bias != nullptr, out);
  MatmulOperands operands{x.data(), weight.data(), bias, out.data()};
  if (stream_weights_refusal(problem, operands, StreamEpilogue::kPlain).empty())
    stream_weights(ctx, problem, operands, StreamEpilogue::kPlain);
  else if (cublaslt_refusal(problem, operands).empty())
    plans_.run(problem, operands, ctx.stream);
  else
    matmul_tiled(problem, operands, ctx.stream);
}

}  // namespace fk::cuda
