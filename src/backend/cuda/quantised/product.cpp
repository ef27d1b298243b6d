#include "backend/cuda/quantised/product.h"

#include <algorithm>

#include "backend/cuda/device/capabilities.h"
#include "backend/cuda/matmul/tiled.h"
#include "backend/cuda/quantised/fp8_tokens.h"

namespace fk::cuda {
namespace {

int64_t row_stride(const View& v) { return v.size(0) > 1 ? v.stride(0) : v.size(1); }

}  // namespace

std::string_view quantised_call_refusal(const View& x, const View& out, bool bias, DType bias_dtype) {
  bool known = x.dtype() == DType::kBF16 || x.dtype() == DType::kF16 || x.dtype() == DType::kF32;
  if (!known) return "it multiplies bf16, f16 and f32";
  if (out.dtype() != DType::kF32 && out.dtype() != x.dtype()) return "the output is neither f32 nor of the dtype of x";
  if (bias && bias_dtype != x.dtype()) return "the bias and x have different dtypes";
  if (!x.rows_contiguous() || !out.rows_contiguous()) return "rows must be contiguous";
  return {};
}

std::string_view QuantisedProduct::stream_refusal(const View& x, const View& out, StreamEpilogue epilogue) const {
  if (x.dtype() != DType::kBF16 && x.dtype() != DType::kF16) return "it multiplies bf16 and f16";
  if (x.size(0) > kMostCodeRows) return "it takes at most 16 rows";
  bool gated = epilogue != StreamEpilogue::kPlain;
  if (gated && out.dtype() != x.dtype()) return "gated products keep their dtype";
  if (gated && (matrices_.size() != 2 || matrices_[0]->rows() != matrices_[1]->rows() ||
                matrices_[0]->stream() != matrices_[1]->stream()))
    return "gate and up must be alike";
  if (reinterpret_cast<uintptr_t>(x.data()) % 16 != 0 || row_stride(x) % 8 != 0) return "rows must start on 16 bytes";
  for (const auto& matrix : matrices_)
    if (matrix->stream() == nullptr) return matrix->no_stream();
  return {};
}

void QuantisedProduct::stream(Context& ctx, const View& x, const void* bias, const View& out, StreamEpilogue epilogue) {
  StreamedCall call{.x = x.data(),
                    .bias = bias,
                    .out = out.data(),
                    .x_stride = row_stride(x),
                    .out_stride = row_stride(out),
                    .tokens = static_cast<int>(x.size(0)),
                    .length = static_cast<int>(x.size(1)),
                    .dtype = x.dtype(),
                    .float_out = out.dtype() == DType::kF32,
                    .epilogue = epilogue,
                    .matrices = 0,
                    .matrix = {}};
  int64_t column = 0;
  for (size_t i = 0; i < matrices_.size(); ++i) {
    StreamedMatrix& matrix = call.matrix[call.matrices++] = matrices_[i]->streamed(ctx.stream);
    matrix.first_column = static_cast<int>(column);
    column += matrices_[i]->rows();
    const CodeStream* stream = matrices_[i]->stream();
    bool last =
        i + 1 == matrices_.size() || call.matrices == kMostStreamedMatrices || matrices_[i + 1]->stream() != stream;
    if (!last) continue;
    stream->multiply(call, ctx.stream);
    call.matrices = 0;
  }
}

std::string_view QuantisedProduct::fp8_refusal(const View& x, const View& out, bool bias) const {
  if (std::string_view why = wgmma_unavailable(); !why.empty()) return why;
  if (x.dtype() != DType::kBF16 && x.dtype() != DType::kF16) return "it rounds bf16 and f16";
  if (bias && out.dtype() != x.dtype()) return "the bias and the output have different dtypes";
  for (const auto& matrix : matrices_) {
    if (!matrix->has_fp8_operand()) return "the matrix must be FP8 with one scale for each row";
    if (matrix->columns() % 16 != 0 || matrix->rows() % 16 != 0) return "rows and columns must be multiples of 16";
  }
  auto starts = [](const View& v) {
    return reinterpret_cast<uintptr_t>(v.data()) % 16 == 0 &&
           row_stride(v) * static_cast<int64_t>(dtype_size(v.dtype())) % 16 == 0;
  };
  if (!starts(x) || !starts(out)) return "rows must start on 16 bytes";
  return {};
}

bool QuantisedProduct::multiply_fp8(Context& ctx, const View& x, const void* bias, const View& out) {
  const int64_t tokens = x.size(0), columns = x.size(1);
  if (tokens == 0) return true;
  Arena::Mark scratch = ctx.arena.mark();
  View codes = ctx.arena.make({{tokens, columns}, DType::kF8E4M3}), scales = ctx.arena.make({{tokens}, DType::kF32});
  quantise_tokens(x, codes, scales, ctx.stream);
  int64_t at = 0;
  bool possible = true;
  for (const auto& matrix : matrices_) {
    const QuantisedMatrix::Fp8Operand weight = matrix->fp8_operand(ctx.stream);
    View to = out.narrow(1, at, matrix->rows());
    const auto bias_bytes = at * static_cast<int64_t>(dtype_size(x.dtype()));
    MatmulProblem problem{.rows = tokens,
                          .out_features = matrix->rows(),
                          .in_features = columns,
                          .x_stride = columns,
                          .out_stride = row_stride(out),
                          .dtype = DType::kF8E4M3,
                          .out_dtype = out.dtype(),
                          .bias = bias != nullptr};
    MatmulOperands operands{.x = codes.data(),
                            .weight = weight.codes,
                            .bias = bias == nullptr ? nullptr : static_cast<const std::byte*>(bias) + bias_bytes,
                            .out = to.data(),
                            .x_scales = scales.ptr<float>(),
                            .weight_scales = weight.row_scales};
    possible = plans_.supported(problem, operands, ctx.stream);
    if (!possible) break;
    plans_.run(problem, operands, ctx.stream);
    at += matrix->rows();
  }
  ctx.arena.release(scratch);
  return possible;
}

void QuantisedProduct::write_out(Context& ctx, const View& x, const void* bias, const View& out) {
  // As much scratch memory as the largest layers of usual models need at once, and few pieces of a head.
  constexpr int64_t kScratchBytes = int64_t{256} << 20, kRowMultiple = 128;
  if (x.size(0) == 0) return;
  const auto size = static_cast<int64_t>(dtype_size(x.dtype()));
  int64_t column = 0;
  for (const auto& matrix : matrices_) {
    const int64_t columns = matrix->columns();
    const int64_t piece =
        std::max(kScratchBytes / std::max<int64_t>(columns * size, 1) / kRowMultiple, int64_t{1}) * kRowMultiple;
    for (int64_t first = 0; first < matrix->rows(); first += piece) {
      const int64_t rows = std::min(piece, matrix->rows() - first), at = column + first;
      Arena::Mark scratch = ctx.arena.mark();
      View elements = ctx.arena.make({{rows, columns}, x.dtype()});
      matrix->dequantise(first, elements, ctx.stream);
      View to = out.narrow(1, at, rows);
      const void* bias_at = bias == nullptr ? nullptr : static_cast<const std::byte*>(bias) + at * size;
      MatmulProblem problem = problem_of(x, elements, bias != nullptr, to);
      problem.out_stride = row_stride(out);
      MatmulOperands operands{x.data(), elements.data(), bias_at, to.data()};
      // The streaming products of elements are no choice here: they read their matrix before this kernel has ended.
      if (cublaslt_refusal(problem, operands).empty())
        plans_.run(problem, operands, ctx.stream);
      else
        matmul_tiled(problem, operands, ctx.stream);
      ctx.arena.release(scratch);
    }
    column += matrix->rows();
  }
}

void QuantisedProduct::run(Context& ctx, const View& x, const void* bias, const View& out) {
  if (stream_refusal(x, out, StreamEpilogue::kPlain).empty())
    stream(ctx, x, bias, out, StreamEpilogue::kPlain);
  else if (!fp8_refusal(x, out, bias != nullptr).empty() || !multiply_fp8(ctx, x, bias, out))
    write_out(ctx, x, bias, out);
}

}  // namespace fk::cuda
