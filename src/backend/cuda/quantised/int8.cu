// Matrices in int8_channel (ops/formats/int8.cpp): streamed as they are stored.
#include "backend/cuda/quantised/matrix_of.cuh"

namespace fk::cuda {
namespace {

void multiply(StreamedCall call, void* stream) { multiply_streamed_codes<Int8Codes>(call, "int8", stream); }
constexpr CodeStream kStream{"int8", Int8Codes::kRun, multiply};

std::unique_ptr<QuantisedMatrix> make(const StoredMatrix& m) {
  const auto* codes = m.tensors[0].ptr<int8_t>();
  const auto* scales = m.tensors[1].ptr<float>();
  std::string_view refusal = size_refusal(m, Int8Codes::kRun);
  if (refusal.empty() && reinterpret_cast<uintptr_t>(codes) % 16 != 0) refusal = "rows must start on 16 bytes";
  return std::make_unique<MatrixOf<Int8Codes, Int8Reader>>(
      m, Int8Reader{codes, scales, m.columns}, &kStream, refusal,
      StreamedMatrix{.codes = codes, .scales = scales, .row_shift = 0, .row_stride = 1, .step_shift = 31});
}

const RegisterMatrixFormat kInt8("int8_channel", make);

}  // namespace
}  // namespace fk::cuda
