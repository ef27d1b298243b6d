// Matrices in FP8 (ops/formats/fp8.cpp): streamed as they are stored.
#include "backend/cuda/quantised/matrix_of.cuh"

namespace fk::cuda {
namespace {

void multiply(StreamedCall call, void* stream) { multiply_streamed_codes<Fp8Codes>(call, "fp8", stream); }
constexpr CodeStream kStream{"fp8", Fp8Codes::kRun, multiply};

constexpr int kBlockShift = 7;  // blocks of 128 x 128
constexpr int kNever = 31;      // a shift after which every index is 0

std::unique_ptr<QuantisedMatrix> make(const StoredMatrix& m, int row_shift, int column_shift, int64_t row_stride) {
  const auto* codes = static_cast<const uint8_t*>(m.tensors[0].data());
  const auto* scales = m.tensors[1].ptr<float>();
  std::string_view refusal = size_refusal(m, Fp8Codes::kRun);
  if (refusal.empty() && reinterpret_cast<uintptr_t>(codes) % 16 != 0) refusal = "rows must start on 16 bytes";
  const int step_shift = column_shift == kNever ? kNever : 1;  // two steps are a block
  static_assert(2 * Fp8Codes::kStep == 1 << kBlockShift);
  return std::make_unique<MatrixOf<Fp8Codes, Fp8Reader>>(
      m, Fp8Reader{codes, scales, m.columns, row_shift, column_shift, row_stride}, &kStream, refusal,
      StreamedMatrix{.codes = codes,
                     .scales = scales,
                     .row_shift = row_shift,
                     .row_stride = static_cast<int>(row_stride),
                     .step_shift = step_shift});
}

std::unique_ptr<QuantisedMatrix> make_blocks(const StoredMatrix& m) {
  return make(m, kBlockShift, kBlockShift, m.tensors[1].size(1));
}
const RegisterMatrixFormat kBlock("fp8_block", make_blocks), kBlockScale("fp8_block_scale", make_blocks);
const RegisterMatrixFormat kChannel("fp8_channel", [](const StoredMatrix& m) { return make(m, 0, kNever, 1); });
const RegisterMatrixFormat kTensor("fp8_tensor", [](const StoredMatrix& m) { return make(m, kNever, kNever, 0); });

}  // namespace
}  // namespace fk::cuda
