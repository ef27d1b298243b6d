#include "backend/cuda/quantised/expert_product.h"

#include <algorithm>

#include "backend/cuda/device/capabilities.h"
#include "backend/cuda/experts/stream.h"
#include "backend/cuda/experts/tiled.h"
#include "backend/cuda/experts/wgmma.h"

namespace fk::cuda {
namespace {

// With more rows for an expert, on average, codes would be read too often: again for every 16 rows.
constexpr int64_t kMostRowsOfAnExpert = 32;

void multiply_elements(const ExpertsCall& call, void* stream) {
  if (wgmma_unavailable().empty() && experts_wgmma_refusal(call).empty())
    experts_wgmma(call, stream);
  else if (stream_experts_refusal(call).empty())
    stream_experts(call, stream);
  else
    experts_tiled(call, stream);
}

}  // namespace

void ExpertProduct::bind(std::string_view format, const View& weight, int64_t columns) {
  matrix_ = make_matrix(format, {.tensors = {&weight, 1}, .rows = weight.size(0) * weight.size(1), .columns = columns});
}

std::string_view ExpertProduct::stream_refusal(const ExpertsCall& call) const {
  if (call.pairs > kMostRowsOfAnExpert * call.experts) return "the matrices are better written out";
  if (call.experts > 65535) return "there are too many experts for a grid";
  if (call.weight_rows() % 8 != 0 || (call.epilogue == ExpertsEpilogue::kSiluAndMul && call.features % 8 != 0))
    return "the rows of an expert do not divide into octets";
  if (std::string_view why = experts_packs_refusal(call); !why.empty()) return why;
  if (matrix_ == nullptr) return {};  // asked before weights are bound
  if (matrix_->stream() == nullptr) return matrix_->no_stream();
  if (matrix_->stream()->multiply_experts == nullptr) return "experts in this format are not streamed";
  return {};
}

void ExpertProduct::stream(const ExpertsCall& call, void* stream) {
  matrix_->stream()->multiply_experts(call, matrix_->streamed(stream), stream);
}

void ExpertProduct::write_out(Context& ctx, const ExpertsCall& call) {
  constexpr int64_t kScratchBytes = int64_t{256} << 20;
  if (call.pairs == 0) return;
  const int64_t rows = call.weight_rows(), row_bytes = call.length * static_cast<int64_t>(dtype_size(call.dtype));
  const int64_t at_once =
      std::clamp<int64_t>(kScratchBytes / std::max<int64_t>(rows * row_bytes, 1), 1, std::max(call.experts, 1));
  for (int64_t first = 0; first < call.experts; first += at_once) {
    const int64_t experts = std::min<int64_t>(at_once, call.experts - first);
    Arena::Mark scratch = ctx.arena.mark();
    View elements = ctx.arena.make({{experts * rows, call.length}, call.dtype});
    matrix_->dequantise(first * rows, elements, ctx.stream);
    ExpertsCall part = call;
    part.weight = elements.data();
    part.experts = static_cast<int>(experts);
    part.offsets = call.offsets + first;  // places in the list of all pairs
    if (call.bias != nullptr)
      part.bias =
          static_cast<const std::byte*>(call.bias) + first * rows * static_cast<int64_t>(dtype_size(call.dtype));
    multiply_elements(part, ctx.stream);
    ctx.arena.release(scratch);
  }
}

void ExpertProduct::run(Context& ctx, const ExpertsCall& call) {
  if (stream_refusal(call).empty())
    stream(call, ctx.stream);
  else
    write_out(ctx, call);
}

}  // namespace fk::cuda
