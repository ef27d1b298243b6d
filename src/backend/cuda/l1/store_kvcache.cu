// StoreKVCache on CUDA: each token's heads copied to its slot.
#include "ops/l1/store_kvcache.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/units.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kStoreKvcacheThreads = 256;

// One of keys and values; pitches in bytes.
struct Side {
  const std::byte* from;
  int64_t token_pitch;
  int64_t head_pitch;
  std::byte* cache;
};

template <class U>
__global__ void __launch_bounds__(kStoreKvcacheThreads)
    store_tokens(const Side key, const Side value, const int64_t* slots, int64_t slot_stride, int64_t num_slots,
                 unsigned head_units, unsigned token_units, unsigned pieces) {
  let_next_start();
  wait_for_previous();
  const int64_t token = blockIdx.x / pieces;
  const int64_t slot = slots[token * slot_stride];
  // Units of the token's keys, then of its values.
  unsigned i = blockIdx.x % pieces * kStoreKvcacheThreads + threadIdx.x;
  if (slot < 0 || slot >= num_slots || i >= 2 * token_units) return;
  const Side side = i < token_units ? key : value;
  i = i < token_units ? i : i - token_units;
  const U* head = reinterpret_cast<const U*>(side.from + token * side.token_pitch + i / head_units * side.head_pitch);
  reinterpret_cast<U*>(side.cache)[slot * token_units + i] = head[i % head_units];
}

class StoreKVCacheTokenCopy final : public StoreKVCache {
 public:
  using StoreKVCache::StoreKVCache;

  std::string_view refuse(Args args) const override { return refuse_call(args); }

  void forward(Context& ctx, View key, View value, View key_cache, View value_cache, View slot_mapping) override {
    auto size = static_cast<int64_t>(dtype_size(key.dtype()));
    UnitBits bits;
    for (const View* v : {&key, &value, &key_cache, &value_cache}) bits.add(*v);
    auto side = [&](const View& from, const View& cache) {
      return Side{.from = static_cast<const std::byte*>(from.data()),
                  .token_pitch = from.stride(0) * size,
                  .head_pitch = from.stride(1) * size,
                  .cache = static_cast<std::byte*>(cache.data())};
    };
    bits.with_unit([&](auto type) {
      using U = typename decltype(type)::type;
      auto head_units = static_cast<unsigned>(init_.head_size * size / static_cast<int64_t>(sizeof(U)));
      auto token_units = static_cast<unsigned>(init_.num_kv_heads) * head_units;
      unsigned pieces = blocks_for(2 * token_units, kStoreKvcacheThreads);
      launch("store_kvcache", store_tokens<U>, static_cast<unsigned>(key.size(0)) * pieces, kStoreKvcacheThreads, 0,
             ctx.stream, side(key, key_cache), side(value, value_cache), slot_mapping.ptr<int64_t>(),
             slot_mapping.stride(0), key_cache.size(0) * key_cache.size(1), head_units, token_units, pieces);
    });
  }
};

FK_IMPLEMENTATION(StoreKVCache, StoreKVCacheTokenCopy, "cuda.token_copy", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
