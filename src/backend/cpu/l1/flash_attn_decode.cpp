// FlashAttnDecode on any CPU.
#include "ops/l1/flash_attn_decode.h"

#include "backend/cpu/attention/decode.h"
#include "ops/register.h"

namespace fk {
namespace {

class FlashAttnDecodeSplitKv final : public FlashAttnDecode {
 public:
  using FlashAttnDecode::FlashAttnDecode;

  std::string_view refuse(Args args) const override { return refuse_decode(init_, args); }

  void forward(Context& ctx, View q, View k_cache, View v_cache, View cache_seqlens, View block_table,
               View out) override {
    decode_attention(ctx, kDecodeDot, init_, {q, k_cache, v_cache, cache_seqlens, block_table, out, sinks()});
  }
};

FK_IMPLEMENTATION(FlashAttnDecode, FlashAttnDecodeSplitKv, "cpu.split_kv", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
