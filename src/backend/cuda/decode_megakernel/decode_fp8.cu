// The token kernel for weights in FP8 with one scale for a row.
#include "backend/cuda/decode_megakernel/decode_token.h"
#include "backend/cuda/decode_megakernel/token_launch.cuh"

namespace fk::cuda {

void decode_token_in_fp8(const TokenCall& call, int64_t head_size, void* stream) {
  start_token<TokenKind::kDense, CodedWeights<Fp8Codes>>(call, head_size, stream);
}

}  // namespace fk::cuda
