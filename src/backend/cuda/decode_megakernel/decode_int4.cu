// The token kernel for weights of 4-bit integers.
#include "backend/cuda/decode_megakernel/decode_token.h"
#include "backend/cuda/decode_megakernel/token_launch.cuh"

namespace fk::cuda {

void decode_token_in_int4(const TokenCall& call, int64_t head_size, void* stream) {
  start_token<TokenKind::kDense, CodedWeights<Int4Codes<1>>>(call, head_size, stream);
}

}  // namespace fk::cuda
