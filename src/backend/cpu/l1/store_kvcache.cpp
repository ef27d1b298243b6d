// StoreKVCache on CPU: a copy per token, or per head if the heads of the new keys are not contiguous.
#include "ops/l1/store_kvcache.h"

#include "backend/cpu/l1/copy_rows.h"
#include "ops/register.h"

namespace fk {
namespace {

class StoreKVCacheTokenCopy final : public StoreKVCache {
 public:
  using StoreKVCache::StoreKVCache;

  std::string_view refuse(Args args) const override { return refuse_call(args); }

  void forward(Context& ctx, View key, View value, View key_cache, View value_cache, View slot_mapping) override {
    const auto* slots = slot_mapping.ptr<int64_t>();
    int64_t stride = slot_mapping.stride(0);
    for_rows(ctx.pool, key.size(0), 2 * init_.num_kv_heads * init_.head_size, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        int64_t slot = slots[t * stride];
        if (slot < 0) continue;
        copy_token(key, t, key_cache, slot);
        copy_token(value, t, value_cache, slot);
      }
    });
  }

 private:
  void copy_token(const View& from, int64_t t, const View& cache, int64_t slot) const {
    size_t element = dtype_size(from.dtype()), head = static_cast<size_t>(init_.head_size) * element;
    auto heads = static_cast<size_t>(init_.num_kv_heads);
    const std::byte* source = row_bytes(from, t);
    std::byte* target = static_cast<std::byte*>(cache.data()) + static_cast<size_t>(slot) * heads * head;
    if (from.stride(1) == init_.head_size) {
      std::memcpy(target, source, heads * head);
      return;
    }
    for (size_t h = 0; h < heads; ++h)
      std::memcpy(target + h * head, source + h * static_cast<size_t>(from.stride(1)) * element, head);
  }
};

FK_IMPLEMENTATION(StoreKVCache, StoreKVCacheTokenCopy, "cpu.token_copy", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
