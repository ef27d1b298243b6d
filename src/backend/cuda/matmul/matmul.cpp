#include "backend/cuda/matmul/matmul.h"

#include "backend/cuda/matmul/stream_tiles.h"
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

CublasLtMatmul& CublasLtPlans::plan(const MatmulProblem& problem) {
  auto at = plans_.find(problem);
  if (at == plans_.end()) at = plans_.emplace(problem, CublasLtMatmul(problem)).first;
  return at->second;
}

void CublasLtPlans::run(const MatmulProblem& problem, const MatmulOperands& operands, void* stream) {
  plan(problem).run(operands, stream);
}

bool CublasLtPlans::supported(const MatmulProblem& problem, const MatmulOperands& operands, void* stream) {
  return plan(problem).supported(operands, stream);
}

std::string_view streamed_refusal(const MatmulProblem& problem, const MatmulOperands& operands,
                                  StreamEpilogue epilogue) {
  if (problem.rows <= kMostStreamedRows) return stream_weights_refusal(problem, operands, epilogue);
  return stream_tiles_refusal(problem, operands, epilogue);
}

void multiply_streamed(const MatmulProblem& problem, const MatmulOperands& operands, StreamEpilogue epilogue,
                       void* stream) {
  if (problem.rows <= kMostStreamedRows)
    stream_weights(problem, operands, epilogue, stream);
  else
    stream_tiles(problem, operands, epilogue, stream);
}

void Matmul::run(Context& ctx, const View& x, const View& weight, const void* bias, const View& out) {
  MatmulProblem problem = problem_of(x, weight, bias != nullptr, out);
  MatmulOperands operands{x.data(), weight.data(), bias, out.data()};
  if (streamed_refusal(problem, operands, StreamEpilogue::kPlain).empty())
    multiply_streamed(problem, operands, StreamEpilogue::kPlain, ctx.stream);
  else
    run_written(ctx, x, weight, bias, out);
}

void Matmul::run_written(Context& ctx, const View& x, const View& weight, const void* bias, const View& out) {
  MatmulProblem problem = problem_of(x, weight, bias != nullptr, out);
  MatmulOperands operands{x.data(), weight.data(), bias, out.data()};
  if (cublaslt_refusal(problem, operands).empty())
    plans_.run(problem, operands, ctx.stream);
  else
    matmul_tiled(problem, operands, ctx.stream);
}

}  // namespace fk::cuda
