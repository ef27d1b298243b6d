// FlashAttnPrefill with the matrix instructions of aarch64.
#include "backend/cpu/attention/prefill.h"
#include "core/cpu_features.h"
#include "ops/register.h"

namespace fk {
namespace {

std::string_view without_bfmmla() { return cpu_features().neon_bf16 ? "" : "this CPU has no BFDOT and BFMMLA"; }

class FlashAttnPrefillNeonBf16 final : public FlashAttnPrefill {
 public:
  using FlashAttnPrefill::FlashAttnPrefill;

  std::string_view refuse(Args args) const override {
    if (args[0]->dtype() != DType::kBF16) return "it computes in bf16 only";
    return refuse_prefill(init_, args);
  }

  void forward(Context& ctx, View q, View k, View v, View cu_seqlens_q, View cu_seqlens_k, OptView block_table,
               View out) override {
    prefill_attention(ctx, kPrefillNeonBf16, init_, {q, k, v, cu_seqlens_q, cu_seqlens_k, block_table, out, sinks()});
  }
};

FK_IMPLEMENTATION(FlashAttnPrefill, FlashAttnPrefillNeonBf16, "cpu.neon_bf16", DeviceKind::kCpu, 20, without_bfmmla);

}  // namespace
}  // namespace fk
