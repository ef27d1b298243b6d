// The token kernel for models with experts in MXFP4.
#include "backend/cuda/decode_megakernel/decode_token.h"
#include "backend/cuda/decode_megakernel/token_launch.cuh"

namespace fk::cuda {

void decode_token_with_packed_experts(const TokenCall& call, int64_t head_size, void* stream) {
  start_token<TokenKind::kPackedExperts>(call, head_size, stream);
}

}  // namespace fk::cuda
