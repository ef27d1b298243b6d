// Matrices in Q6_K (ops/formats/q6_k.cpp).
#include "backend/cuda/quantised/gguf_matrix.cuh"

namespace fk::cuda {
namespace {

void multiply(StreamedCall call, void* stream) { multiply_streamed_codes<Q6_KCodes>(call, "q6_k", stream); }
constexpr CodeStream kStream{"q6_k", Q6_KCodes::kRun, multiply};

std::unique_ptr<QuantisedMatrix> make(const StoredMatrix& m) {
  return make_gguf_matrix<Q6_KCodes, Q6_KReader>(m, kStream);
}
const RegisterMatrixFormat kFormat("q6_k", make);

}  // namespace
}  // namespace fk::cuda
