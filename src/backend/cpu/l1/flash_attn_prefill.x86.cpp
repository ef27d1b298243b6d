// FlashAttnPrefill with the tile instructions of x86-64.
#include "backend/cpu/attention/prefill.h"
#include "core/cpu_features.h"
#include "ops/register.h"

namespace fk {
namespace {

std::string_view without_amx() {
  return cpu_features().amx_bf16 ? "" : "this CPU has no AMX for bf16, or the system does not grant it";
}

class FlashAttnPrefillAmxBf16 final : public FlashAttnPrefill {
 public:
  using FlashAttnPrefill::FlashAttnPrefill;

  std::string_view refuse(Args args) const override {
    if (args[0]->dtype() != DType::kBF16) return "it computes in bf16 only";
    if (init_.attention_sinks) return "it has no attention sinks";
    return refuse_prefill(init_, args);
  }

  void forward(Context& ctx, View q, View k, View v, View cu_seqlens_q, View cu_seqlens_k, OptView block_table,
               View out) override {
    prefill_attention(ctx, kPrefillAmxBf16, init_, {q, k, v, cu_seqlens_q, cu_seqlens_k, block_table, out, {}});
  }
};

FK_IMPLEMENTATION(FlashAttnPrefill, FlashAttnPrefillAmxBf16, "cpu.amx_bf16", DeviceKind::kCpu, 40, without_amx);

}  // namespace
}  // namespace fk
