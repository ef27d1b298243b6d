// IndexerKCache on CUDA: each token's key copied to its slot.
#include "ops/l1/indexer_k_cache.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/units.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kIndexKeyThreads = 64;

template <class U>
__global__ void __launch_bounds__(kIndexKeyThreads)
    store_index_keys(const std::byte* keys, int64_t key_pitch, std::byte* cache, int64_t page, int64_t block_pitch,
                     int64_t entry_pitch, const int64_t* slots, int64_t slot_stride, int64_t num_slots, unsigned units) {
  let_next_start();
  wait_for_previous();
  const int64_t token = blockIdx.x, slot = slots[token * slot_stride];
  if (slot < 0 || slot >= num_slots) return;
  U* to = reinterpret_cast<U*>(cache + slot / page * block_pitch + slot % page * entry_pitch);
  const U* from = reinterpret_cast<const U*>(keys + token * key_pitch);
  for (unsigned i = threadIdx.x; i < units; i += kIndexKeyThreads) to[i] = from[i];
}

class IndexerKCacheTokenCopy final : public IndexerKCache {
 public:
  using IndexerKCache::IndexerKCache;

  std::string_view refuse(Args args) const override { return refuse_call(args); }

  void forward(Context& ctx, View k, View k_cache, View slot_mapping) override {
    auto size = static_cast<int64_t>(dtype_size(k.dtype()));
    UnitBits bits;
    bits.add(k);
    bits.add(k_cache);
    bits.with_unit([&](auto type) {
      using U = typename decltype(type)::type;
      launch("indexer_k_cache", store_index_keys<U>, static_cast<unsigned>(k.size(0)), kIndexKeyThreads, 0, ctx.stream,
             static_cast<const std::byte*>(k.data()), k.stride(0) * size, static_cast<std::byte*>(k_cache.data()),
             k_cache.size(1), k_cache.stride(0) * size, k_cache.stride(1) * size, slot_mapping.ptr<int64_t>(),
             slot_mapping.stride(0), k_cache.size(0) * k_cache.size(1),
             static_cast<unsigned>(init_.head_dim * size / static_cast<int64_t>(sizeof(U))));
    });
  }
};

FK_IMPLEMENTATION(IndexerKCache, IndexerKCacheTokenCopy, "cuda.token_copy", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
