// Matrices in Q4_0 (ops/formats/q4_0.cpp).
#include "backend/cuda/quantised/gguf_matrix.cuh"

namespace fk::cuda {
namespace {

void multiply(StreamedCall call, void* stream) { multiply_streamed_codes<Q4_0Codes>(call, "q4_0", stream); }
constexpr CodeStream kStream{"q4_0", Q4_0Codes::kRun, multiply};

std::unique_ptr<QuantisedMatrix> make(const StoredMatrix& m) {
  return make_gguf_matrix<Q4_0Codes, Q4_0Reader>(m, kStream);
}
const RegisterMatrixFormat kFormat("q4_0", make);

}  // namespace
}  // namespace fk::cuda
