// FlashAttnPrefill on CUDA: tiles on tensor cores, with wgmma on Hopper; a row-by-row kernel for other calls.
#include "ops/l1/flash_attn_prefill.h"

#include "backend/cuda/attention/prefill_mma.h"
#include "backend/cuda/attention/prefill_wgmma.h"
#include "backend/cuda/attention/rows.h"
#include "backend/cuda/device/capabilities.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

AttentionCall call_of(const FlashAttnPrefill::Init& init, Args args) {
  return prefill_call(init, *args[0], *args[1], *args[2], *args[3], *args[4], args[5], *args[6]);
}

class FlashAttnPrefillWgmma final : public FlashAttnPrefill {
 public:
  using FlashAttnPrefill::FlashAttnPrefill;

  std::string_view refuse(Args args) const override { return prefill_wgmma_refusal(call_of(init_, args)); }
  void forward(Context& ctx, View q, View k, View v, View cu_seqlens_q, View cu_seqlens_k, OptView block_table,
               View out) override {
    AttentionCall call = prefill_call(init_, q, k, v, cu_seqlens_q, cu_seqlens_k, block_table, out);
    call.sinks = sinks_of(sinks());
    attention_prefill_wgmma(call, ctx.stream);
  }
};

class FlashAttnPrefillMma final : public FlashAttnPrefill {
 public:
  using FlashAttnPrefill::FlashAttnPrefill;

  std::string_view refuse(Args args) const override { return prefill_mma_refusal(call_of(init_, args)); }
  void forward(Context& ctx, View q, View k, View v, View cu_seqlens_q, View cu_seqlens_k, OptView block_table,
               View out) override {
    AttentionCall call = prefill_call(init_, q, k, v, cu_seqlens_q, cu_seqlens_k, block_table, out);
    call.sinks = sinks_of(sinks());
    attention_prefill_mma(call, ctx.stream);
  }
};

class FlashAttnPrefillRows final : public FlashAttnPrefill {
 public:
  using FlashAttnPrefill::FlashAttnPrefill;

  std::string_view refuse(Args args) const override { return attention_rows_refusal(call_of(init_, args)); }
  void forward(Context& ctx, View q, View k, View v, View cu_seqlens_q, View cu_seqlens_k, OptView block_table,
               View out) override {
    AttentionCall call = prefill_call(init_, q, k, v, cu_seqlens_q, cu_seqlens_k, block_table, out);
    call.sinks = sinks_of(sinks());
    attention_rows(call, ctx.stream);
  }
};

FK_IMPLEMENTATION(FlashAttnPrefill, FlashAttnPrefillWgmma, "cuda.wgmma", DeviceKind::kCuda, 300, wgmma_unavailable);
FK_IMPLEMENTATION(FlashAttnPrefill, FlashAttnPrefillMma, "cuda.mma_tiles", DeviceKind::kCuda, 200, nullptr);
FK_IMPLEMENTATION(FlashAttnPrefill, FlashAttnPrefillRows, "cuda.warp_per_row", DeviceKind::kCuda, 100, nullptr);

}  // namespace
}  // namespace fk::cuda
