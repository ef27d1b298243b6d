// The token kernel for dense models with weights of elements, and what all of them support.
#include "backend/cuda/decode_megakernel/decode_token.h"

#include "backend/cuda/decode_megakernel/token_launch.cuh"

namespace fk::cuda {
namespace {

std::string_view packed_refusal(const TokenCall& call, int blocks) {
  auto of_block = [&](ProductKind kind) { return (pairs_of(call.shapes[kind]) + blocks - 1) / blocks; };
  if (call.experts.count > kFewExperts) return "it takes at most 128 experts in MXFP4";
  if (call.hidden % kMxfp4Elements != 0 || call.experts.size % kMxfp4Elements != 0)
    return "rows in MXFP4 have a multiple of 32 elements";
  if (packed_item_bytes(std::max(call.hidden, call.experts.size)) > kSlotBytes)
    return "a multiprocessor has too little shared memory for such rows of experts";
  if (of_block(kQkv) > kMostQkvPairs || of_block(kDown) * call.experts.chosen > kMostDownItems)
    return "it needs more multiprocessors than there are";
  return {};
}

std::string_view experts_refusal(const TokenCall& call, int64_t head_size) {
  const TokenExperts& e = call.experts;
  if (e.packed && !with_head_size<TokenKind::kPackedExperts>(head_size, [](auto) {}))
    return "with experts in MXFP4, heads have 64 elements";
  if (!with_head_size<TokenKind::kExperts>(head_size, [](auto) {}))
    return "with experts, heads have 64 or 128 elements";
  if (e.count > kMostExperts || e.chosen > kMostChosen) return "it takes at most 256 experts, 32 for a token";
  if (e.size < kFewestOfExpert) return "an expert has at least 16 features";
  if (e.size % 8 != 0) return "rows of weights must start on 16 bytes";
  const int blocks = token_device().multiprocessors;
  if ((call.hidden / 2 + blocks - 1) / blocks > kMostRouterPairs)
    return "its router needs more multiprocessors than there are";
  return e.packed ? packed_refusal(call, blocks) : std::string_view();
}

}  // namespace

std::string_view decode_token_refusal(const TokenCall& call, int64_t head_size) {
  if (!with_head_size(head_size, [](auto) {})) return "heads have 64, 128 or 256 elements";
  if (!token_device().cooperative || !has_hopper_launches()) return "it needs a Hopper GPU or a later one";
  if (call.layers > kMostLayers) return "it takes at most 128 layers";
  if (call.heads % call.kv_heads != 0 || call.heads / call.kv_heads > kMostGroup)
    return "at most 8 heads share a kv head";
  int blocks = 0;
  with_head_size(head_size,
                 [&](auto size) { blocks = TokenAttention<__nv_bfloat16, size()>::blocks_at_least(call.kv_heads); });
  if (blocks > token_device().multiprocessors) return "its heads need more multiprocessors than there are";
  if (call.hidden > kMostNormed) return "it norms at most 8192 elements";
  for (const ProductShape& s : call.shapes)
    if (s.length % 8 != 0) return "rows of weights must start on 16 bytes";
  if (call.codes != TokenCodes::kNone) {
    if (call.experts.count > 0) return "experts must have elements";
    if (!with_head_size<TokenKind::kDense, true>(head_size, [](auto) {}))
      return "with codes, heads have 64 or 128 elements";
  }
  if (call.experts.count > 0)
    if (std::string_view why = experts_refusal(call, head_size); !why.empty()) return why;
  if (slots_that_fit(call, head_size) < kFewestSlots)
    return "a multiprocessor has too little shared memory for such a model";
  return {};
}

TokenScratch decode_token_scratch(const TokenCall& call, int64_t head_size) {
  const auto blocks = static_cast<size_t>(token_device().multiprocessors);
  TokenScratch scratch{.partial_states = blocks * kMostGroup * 2, .arrivals = 1 + blocks};
  with_head_size(head_size, [&](auto size) {
    const size_t bytes = TokenAttention<__nv_bfloat16, size()>::values_bytes(call.heads / call.kv_heads);
    scratch.partial_values = blocks * (bytes / kTokenWarps / sizeof(float));
  });
  scratch.logit_sums = static_cast<size_t>(call.layers * kLogitCopies) * static_cast<size_t>(call.experts.count);
  if (call.experts.count > 0) scratch.square_sums = static_cast<size_t>(call.layers) * blocks;
  return scratch;
}

void decode_token(const TokenCall& call, int64_t head_size, void* stream) {
  if (call.codes == TokenCodes::kFp8) return decode_token_in_fp8(call, head_size, stream);
  if (call.codes == TokenCodes::kInt4) return decode_token_in_int4(call, head_size, stream);
  if (call.experts.packed) return decode_token_with_packed_experts(call, head_size, stream);
  if (call.experts.count > 0) return decode_token_with_experts(call, head_size, stream);
  start_token<TokenKind::kDense>(call, head_size, stream);
}

}  // namespace fk::cuda
