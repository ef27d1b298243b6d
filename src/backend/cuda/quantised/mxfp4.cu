// Matrices in MXFP4 (ops/formats/mxfp4.cpp).
#include "backend/cuda/quantised/expert_codes.cuh"
#include "backend/cuda/quantised/gguf_matrix.cuh"

namespace fk::cuda {
namespace {

void multiply(StreamedCall call, void* stream) { multiply_streamed_codes<Mxfp4Codes>(call, "mxfp4", stream); }
constexpr CodeStream kStream{"mxfp4", Mxfp4Codes::kRun, multiply, multiply_expert_codes<Mxfp4Codes>};

std::unique_ptr<QuantisedMatrix> make(const StoredMatrix& m) {
  return make_gguf_matrix<Mxfp4Codes, Mxfp4Reader>(m, kStream);
}
const RegisterMatrixFormat kFormat("mxfp4", make);

}  // namespace
}  // namespace fk::cuda
