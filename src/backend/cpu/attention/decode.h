// Attention of one query per sequence over the paged cache, which is read once for all query heads that share a kv head.
#pragma once

#include "ops/l1/flash_attn_decode.h"

namespace fk {

struct DecodeArgs {
  View q, k_cache, v_cache, cache_seqlens, block_table, out;
};

void decode_attention(Context& ctx, const FlashAttnDecode::Init& init, const DecodeArgs& args);
std::string_view refuse_decode(const FlashAttnDecode::Init& init, Args args);

}  // namespace fk
