// Matrices in Q4_K (ops/formats/q4_k.cpp).
#include "backend/cuda/quantised/gguf_matrix.cuh"

namespace fk::cuda {
namespace {

void multiply(StreamedCall call, void* stream) { multiply_streamed_codes<Q4_KCodes>(call, "q4_k", stream); }
constexpr CodeStream kStream{"q4_k", Q4_KCodes::kRun, multiply};

std::unique_ptr<QuantisedMatrix> make(const StoredMatrix& m) {
  return make_gguf_matrix<Q4_KCodes, Q4_KReader>(m, kStream);
}
const RegisterMatrixFormat kFormat("q4_k", make);

}  // namespace
}  // namespace fk::cuda
