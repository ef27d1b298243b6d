// Matrices in Q8_0 (ops/formats/q8_0.cpp).
#include "backend/cuda/quantised/gguf_matrix.cuh"

namespace fk::cuda {
namespace {

void multiply(StreamedCall call, void* stream) { multiply_streamed_codes<Q8_0Codes>(call, "q8_0", stream); }
constexpr CodeStream kStream{"q8_0", Q8_0Codes::kRun, multiply};

std::unique_ptr<QuantisedMatrix> make(const StoredMatrix& m) {
  return make_gguf_matrix<Q8_0Codes, Q8_0Reader>(m, kStream);
}
const RegisterMatrixFormat kFormat("q8_0", make);

}  // namespace
}  // namespace fk::cuda
