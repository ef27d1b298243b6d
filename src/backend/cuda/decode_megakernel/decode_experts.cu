// The token kernel for models with experts; a file of its own, so that both compile at the same time.
#include "backend/cuda/decode_megakernel/decode_token.h"
#include "backend/cuda/decode_megakernel/token_launch.cuh"

namespace fk::cuda {

void decode_token_with_experts(const TokenCall& call, int64_t head_size, void* stream) {
  start_token<TokenKind::kExperts>(call, head_size, stream);
}

}  // namespace fk::cuda
