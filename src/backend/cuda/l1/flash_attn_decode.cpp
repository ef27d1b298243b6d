// FlashAttnDecode on CUDA: keys of few sequences split over blocks; those of many shared equally by all blocks; a
// row-by-row kernel for other calls.
#include "ops/l1/flash_attn_decode.h"

#include "backend/cuda/attention/decode_shares.h"
#include "backend/cuda/attention/decode_split.h"
#include "backend/cuda/attention/rows.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

AttentionCall call_of(const FlashAttnDecode::Init& init, Args args) {
  return decode_call(init, *args[0], *args[1], *args[2], *args[3], *args[4], *args[5]);
}

class FlashAttnDecodeSplitKv final : public FlashAttnDecode {
 public:
  using FlashAttnDecode::FlashAttnDecode;

  std::string_view refuse(Args args) const override { return decode_split_refusal(call_of(init_, args)); }
  void forward(Context& ctx, View q, View k_cache, View v_cache, View cache_seqlens, View block_table,
               View out) override {
    AttentionCall call = decode_call(init_, q, k_cache, v_cache, cache_seqlens, block_table, out);
    call.sinks = sinks_of(sinks());
    attention_decode_split(call, ctx.stream);
  }
};

class FlashAttnDecodeShares final : public FlashAttnDecode {
 public:
  using FlashAttnDecode::FlashAttnDecode;

  std::string_view refuse(Args args) const override { return decode_shares_refusal(call_of(init_, args)); }
  void forward(Context& ctx, View q, View k_cache, View v_cache, View cache_seqlens, View block_table,
               View out) override {
    AttentionCall call = decode_call(init_, q, k_cache, v_cache, cache_seqlens, block_table, out);
    call.sinks = sinks_of(sinks());
    Arena::Mark scratch = ctx.arena.mark();
    View partial = ctx.arena.make({{decode_shares_scratch(call)}, DType::kF32});
    attention_decode_shares(call, partial.ptr<float>(), ctx.stream);
    ctx.arena.release(scratch);
  }
};

class FlashAttnDecodeRows final : public FlashAttnDecode {
 public:
  using FlashAttnDecode::FlashAttnDecode;

  std::string_view refuse(Args args) const override { return attention_rows_refusal(call_of(init_, args)); }
  void forward(Context& ctx, View q, View k_cache, View v_cache, View cache_seqlens, View block_table,
               View out) override {
    AttentionCall call = decode_call(init_, q, k_cache, v_cache, cache_seqlens, block_table, out);
    call.sinks = sinks_of(sinks());
    attention_rows(call, ctx.stream);
  }
};

FK_IMPLEMENTATION(FlashAttnDecode, FlashAttnDecodeSplitKv, "cuda.split_kv", DeviceKind::kCuda, 200, nullptr);
FK_IMPLEMENTATION(FlashAttnDecode, FlashAttnDecodeShares, "cuda.shares", DeviceKind::kCuda, 180, nullptr);
FK_IMPLEMENTATION(FlashAttnDecode, FlashAttnDecodeRows, "cuda.warp_per_row", DeviceKind::kCuda, 100, nullptr);

}  // namespace
}  // namespace fk::cuda
