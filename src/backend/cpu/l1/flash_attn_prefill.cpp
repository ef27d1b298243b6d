// FlashAttnPrefill on any CPU.
#include "ops/l1/flash_attn_prefill.h"

#include "backend/cpu/attention/prefill.h"
#include "ops/register.h"

namespace fk {
namespace {

class FlashAttnPrefillTiles final : public FlashAttnPrefill {
 public:
  using FlashAttnPrefill::FlashAttnPrefill;

  std::string_view refuse(Args args) const override { return refuse_prefill(init_, args); }

  void forward(Context& ctx, View q, View k, View v, View cu_seqlens_q, View cu_seqlens_k, OptView block_table,
               View out) override {
    prefill_attention(ctx, kPrefillTiles, init_, {q, k, v, cu_seqlens_q, cu_seqlens_k, block_table, out, sinks()});
  }
};

FK_IMPLEMENTATION(FlashAttnPrefill, FlashAttnPrefillTiles, "cpu.tiles", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
