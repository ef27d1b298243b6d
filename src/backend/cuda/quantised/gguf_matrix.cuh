// The matrix of a block format of GGUF files, from its codes and its reader.
#pragma once

#include "backend/cuda/quantised/matrix_of.cuh"

namespace fk::cuda {

template <class Codes, class Reader>
std::unique_ptr<QuantisedMatrix> make_gguf_matrix(const StoredMatrix& m, const CodeStream& stream) {
  Reader reader{{static_cast<const uint8_t*>(m.tensors[0].data()), m.columns}};
  return std::make_unique<MatrixOf<Codes, Reader>>(m, reader, &stream, size_refusal(m, Codes::kRun));
}

}  // namespace fk::cuda
