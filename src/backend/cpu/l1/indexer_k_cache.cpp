// IndexerKCache on CPU: a copy per token.
#include "ops/l1/indexer_k_cache.h"

#include "backend/cpu/l1/copy_rows.h"
#include "ops/register.h"

namespace fk {
namespace {

class IndexerKCacheTokenCopy final : public IndexerKCache {
 public:
  using IndexerKCache::IndexerKCache;

  std::string_view refuse(Args args) const override { return refuse_call(args); }

  void forward(Context& ctx, View k, View k_cache, View slot_mapping) override {
    const auto* slots = slot_mapping.ptr<int64_t>();
    const int64_t stride = slot_mapping.stride(0), page = k_cache.size(1);
    const auto size = static_cast<int64_t>(dtype_size(k_cache.dtype()));
    const auto bytes = static_cast<size_t>(init_.head_dim * size);
    for_rows(ctx.pool, k.size(0), init_.head_dim, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t)
        if (int64_t slot = slots[t * stride]; slot >= 0) {
          int64_t at = slot / page * k_cache.stride(0) + slot % page * k_cache.stride(1);
          std::memcpy(static_cast<std::byte*>(k_cache.data()) + at * size, row_bytes(k, t), bytes);
        }
    });
  }
};

FK_IMPLEMENTATION(IndexerKCache, IndexerKCacheTokenCopy, "cpu.token_copy", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
