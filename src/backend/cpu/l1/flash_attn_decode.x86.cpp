// FlashAttnDecode with the tile instructions of x86-64.
#include "backend/cpu/attention/decode.h"
#include "core/cpu_features.h"
#include "ops/register.h"

namespace fk {
namespace {

std::string_view without_amx() {
  return cpu_features().amx_bf16 ? "" : "this CPU has no AMX for bf16, or the system does not grant it";
}

class FlashAttnDecodeAmxBf16 final : public FlashAttnDecode {
 public:
  using FlashAttnDecode::FlashAttnDecode;

  std::string_view refuse(Args args) const override {
    if (args[0]->dtype() != DType::kBF16) return "it computes in bf16 only";
    if (init_.head_size % 32 != 0) return "its tiles want a head size that is a multiple of 32";
    if (args[1]->size(1) % 16 != 0) return "its tiles want pages of 16 tokens or a multiple";
    return refuse_decode(init_, args);
  }

  void forward(Context& ctx, View q, View k_cache, View v_cache, View cache_seqlens, View block_table,
               View out) override {
    decode_attention(ctx, kDecodeAmxBf16, init_, {q, k_cache, v_cache, cache_seqlens, block_table, out, sinks()});
  }
};

FK_IMPLEMENTATION(FlashAttnDecode, FlashAttnDecodeAmxBf16, "cpu.amx_split_kv", DeviceKind::kCpu, 40, without_amx);

}  // namespace
}  // namespace fk
