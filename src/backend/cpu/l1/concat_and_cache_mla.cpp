// ConcatAndCacheMLA on CPU: two copies per token.
#include "ops/l1/concat_and_cache_mla.h"

#include "backend/cpu/l1/copy_rows.h"
#include "ops/register.h"

namespace fk {
namespace {

class ConcatAndCacheMLATokenCopy final : public ConcatAndCacheMLA {
 public:
  using ConcatAndCacheMLA::ConcatAndCacheMLA;

  std::string_view refuse(Args args) const override { return refuse_call(args); }

  void forward(Context& ctx, View kv_c, View k_pe, View kv_cache, View slot_mapping) override {
    const auto* slots = slot_mapping.ptr<int64_t>();
    const int64_t stride = slot_mapping.stride(0), page = kv_cache.size(1), entry = init_.kv_lora_rank + init_.qk_rope_head_dim;
    const size_t size = dtype_size(kv_cache.dtype());
    const size_t latent = static_cast<size_t>(init_.kv_lora_rank) * size,
                 rope = static_cast<size_t>(init_.qk_rope_head_dim) * size;
    for_rows(ctx.pool, kv_c.size(0), entry, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        int64_t slot = slots[t * stride];
        if (slot < 0) continue;
        int64_t at = slot / page * kv_cache.stride(0) + slot % page * kv_cache.stride(1);
        std::byte* to = static_cast<std::byte*>(kv_cache.data()) + at * static_cast<int64_t>(size);
        std::memcpy(to, row_bytes(kv_c, t), latent);
        std::memcpy(to + latent, row_bytes(k_pe, t), rope);
      }
    });
  }
};

FK_IMPLEMENTATION(ConcatAndCacheMLA, ConcatAndCacheMLATokenCopy, "cpu.token_copy", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
