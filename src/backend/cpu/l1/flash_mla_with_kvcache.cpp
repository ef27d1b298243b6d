// FlashMLAWithKVCache on CPU: the queries of all heads are the rows of tiles, which share each packed block of latents.
#include "ops/l1/flash_mla_with_kvcache.h"

#include <cstring>

#include "backend/cpu/attention/kv_rows.h"
#include "backend/cpu/attention/latent.h"
#include "backend/cpu/row_kernel.h"
#include "ops/register.h"

namespace fk {
namespace {

struct CachedLatents final : LatentSets {
  const FlashMLAWithKVCache::Init& init;
  View q_nope, q_pe, cache, seq_lens, block_table;
  OptView cu_seqlens_q;
  View out, lse;

  CachedLatents(const FlashMLAWithKVCache::Init& of, View nope, View pe, View latents, View lens, View table,
                OptView cu_q, View to, View to_lse)
      : init(of),
        q_nope(nope),
        q_pe(pe),
        cache(latents),
        seq_lens(lens),
        block_table(table),
        cu_seqlens_q(cu_q),
        out(to),
        lse(to_lse) {}

  int64_t first_query(int64_t s) const { return cu_seqlens_q ? cu_seqlens_q->ptr<int32_t>()[s] : s; }
  int64_t queries(int64_t s) const { return cu_seqlens_q ? first_query(s + 1) - first_query(s) : 1; }
  int64_t context(int64_t s) const { return seq_lens.ptr<int32_t>()[s] - queries(s); }
  int64_t token(int64_t s, int64_t row) const { return first_query(s) + row / init.num_heads; }

  int64_t count() const override { return seq_lens.size(0); }
  Set set(int64_t s) const override {
    int64_t n = queries(s);
    return {n * init.num_heads, std::max<int64_t>(0, context(s) + (init.context_only ? 0 : n))};
  }
  int64_t keys_of_row(int64_t s, int64_t row) const override {
    return context(s) + (init.context_only ? 0 : row / init.num_heads + 1);
  }
  void key_rows(int64_t s, int64_t key, int64_t n, const void** k, const void** v, std::byte*) const override {
    KvRows rows = KvRows::paged(cache.split_last(1, cache.size(2)), block_table, s);
    for (int64_t j = 0; j < n; ++j) k[j] = v[j] = rows.row(key + j, 0);
  }
  void copy_query(int64_t s, int64_t row, std::byte* to) const override {
    size_t size = dtype_size(q_nope.dtype()), latent = static_cast<size_t>(init.kv_lora_rank) * size;
    std::memcpy(to, address(q_nope, s, row), latent);
    std::memcpy(to + latent, address(q_pe, s, row), static_cast<size_t>(init.qk_rope_head_dim) * size);
  }
  void* out_row(int64_t s, int64_t row) const override { return address(out, s, row); }
  float* lse_of(int64_t s, int64_t row) const override {
    return lse.ptr<float>() + row % init.num_heads * lse.stride(0) + token(s, row);
  }

 private:
  std::byte* address(const View& v, int64_t s, int64_t row) const {
    int64_t offset = token(s, row) * v.stride(0) + row % init.num_heads * v.stride(1);
    return static_cast<std::byte*>(v.data()) + offset * static_cast<int64_t>(dtype_size(v.dtype()));
  }
};

class FlashMLAWithKVCacheTiles final : public FlashMLAWithKVCache {
 public:
  using FlashMLAWithKVCache::FlashMLAWithKVCache;

  std::string_view refuse(Args args) const override {
    std::string_view why = refuse_call(args);
    return why.empty() ? refuse_floats({&args[0], &args[1], &args[2], &args[6]}) : why;
  }

  void forward(Context& ctx, View q_nope, View q_pe, View cache, View seq_lens, View block_table, OptView cu_seqlens_q,
               View out, View lse) override {
    latent_attention(ctx, latent_kernel(q_nope.dtype()),
                     {init_.kv_lora_rank + init_.qk_rope_head_dim, init_.kv_lora_rank, init_.softmax_scale,
                      q_nope.dtype()},
                     CachedLatents(init_, q_nope, q_pe, cache, seq_lens, block_table, cu_seqlens_q, out, lse));
  }
};

FK_IMPLEMENTATION(FlashMLAWithKVCache, FlashMLAWithKVCacheTiles, "cpu.tiles", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
