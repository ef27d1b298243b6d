// ConcatAndCacheMLA on CUDA: each token's two parts copied to its slot.
#include "ops/l1/concat_and_cache_mla.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/units.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kLatentThreads = 128;

// Pitches from token to token in bytes.
struct LatentRows {
  const std::byte* from;
  int64_t pitch;
};

template <class U>
__global__ void __launch_bounds__(kLatentThreads)
    store_latents(const LatentRows latent, const LatentRows rope, std::byte* cache, int64_t page, int64_t block_pitch,
                  int64_t entry_pitch, const int64_t* slots, int64_t slot_stride, int64_t num_slots,
                  unsigned latent_units, unsigned entry_units) {
  let_next_start();
  wait_for_previous();
  const int64_t token = blockIdx.x, slot = slots[token * slot_stride];
  if (slot < 0 || slot >= num_slots) return;
  U* to = reinterpret_cast<U*>(cache + slot / page * block_pitch + slot % page * entry_pitch);
  const U* first = reinterpret_cast<const U*>(latent.from + token * latent.pitch);
  const U* second = reinterpret_cast<const U*>(rope.from + token * rope.pitch);
  for (unsigned i = threadIdx.x; i < entry_units; i += kLatentThreads)
    to[i] = i < latent_units ? first[i] : second[i - latent_units];
}

class ConcatAndCacheMLATokenCopy final : public ConcatAndCacheMLA {
 public:
  using ConcatAndCacheMLA::ConcatAndCacheMLA;

  std::string_view refuse(Args args) const override { return refuse_call(args); }

  void forward(Context& ctx, View kv_c, View k_pe, View kv_cache, View slot_mapping) override {
    auto size = static_cast<int64_t>(dtype_size(kv_c.dtype()));
    UnitBits bits;
    for (const View* v : {&kv_c, &k_pe, &kv_cache}) bits.add(*v);
    auto rows = [&](const View& v) {
      return LatentRows{static_cast<const std::byte*>(v.data()), v.stride(0) * size};
    };
    bits.with_unit([&](auto type) {
      using U = typename decltype(type)::type;
      auto units = [&](int64_t elements) {
        return static_cast<unsigned>(elements * size / static_cast<int64_t>(sizeof(U)));
      };
      launch("concat_and_cache_mla", store_latents<U>, static_cast<unsigned>(kv_c.size(0)), kLatentThreads, 0,
             ctx.stream, rows(kv_c), rows(k_pe), static_cast<std::byte*>(kv_cache.data()), kv_cache.size(1),
             kv_cache.stride(0) * size, kv_cache.stride(1) * size, slot_mapping.ptr<int64_t>(), slot_mapping.stride(0),
             kv_cache.size(0) * kv_cache.size(1), units(init_.kv_lora_rank),
             units(init_.kv_lora_rank + init_.qk_rope_head_dim));
    });
  }
};

FK_IMPLEMENTATION(ConcatAndCacheMLA, ConcatAndCacheMLATokenCopy, "cuda.token_copy", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
