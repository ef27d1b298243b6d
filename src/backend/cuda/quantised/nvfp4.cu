// Matrices in NVFP4 (ops/formats/nvfp4.cpp).
#include "backend/cuda/quantised/matrix_of.cuh"

namespace fk::cuda {
namespace {

void multiply(StreamedCall call, void* stream) { multiply_streamed_codes<Nvfp4Codes>(call, "nvfp4", stream); }
constexpr CodeStream kStream{"nvfp4", Nvfp4Codes::kRun, multiply};

std::unique_ptr<QuantisedMatrix> make(const StoredMatrix& m) {
  const auto* divisor = m.tensors[2].ptr<float>();
  Nvfp4Reader reader{static_cast<const uint8_t*>(m.tensors[0].data()), static_cast<const uint8_t*>(m.tensors[1].data()),
                     divisor, m.columns};
  return std::make_unique<MatrixOf<Nvfp4Codes, Nvfp4Reader>>(m, reader, &kStream, size_refusal(m, Nvfp4Codes::kRun),
                                                             StreamedMatrix{.divisor = divisor});
}

const RegisterMatrixFormat kNvfp4("nvfp4", make);

}  // namespace
}  // namespace fk::cuda
