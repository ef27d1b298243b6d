// FlashMLASparseFwd on CPU: the entries of a query's list are packed as blocks, which the heads of the query share.
#include "ops/l1/flash_mla_sparse_fwd.h"

#include <cstring>

#include "backend/cpu/attention/kv_rows.h"
#include "backend/cpu/attention/latent.h"
#include "backend/cpu/row_kernel.h"
#include "ops/register.h"

namespace fk {
namespace {

struct ListedLatents final : LatentSets {
  const FlashMLASparseFwd::Init& init;
  View q_nope, q_pe, cache, block_table, out;
  const int32_t *sequence_of, *counts, *lists;  // [T], [T], [T, k] without negative entries

  ListedLatents(const FlashMLASparseFwd::Init& of, View nope, View pe, View latents, View table, View to,
                const int32_t* sequences, const int32_t* listed, const int32_t* keys)
      : init(of),
        q_nope(nope),
        q_pe(pe),
        cache(latents),
        block_table(table),
        out(to),
        sequence_of(sequences),
        counts(listed),
        lists(keys) {}

  int64_t count() const override { return q_nope.size(0); }
  Set set(int64_t t) const override { return {init.num_heads, counts[t]}; }
  int64_t keys_of_row(int64_t t, int64_t) const override { return counts[t]; }
  void key_rows(int64_t t, int64_t key, int64_t n, const void** k, const void** v, std::byte*) const override {
    KvRows rows = KvRows::paged(cache.split_last(1, cache.size(2)), block_table, sequence_of[t]);
    for (int64_t j = 0; j < n; ++j) k[j] = v[j] = rows.row(lists[t * init.top_k + key + j], 0);
  }
  void copy_query(int64_t t, int64_t row, std::byte* to) const override {
    size_t size = dtype_size(q_nope.dtype()), latent = static_cast<size_t>(init.kv_lora_rank) * size;
    std::memcpy(to, address(q_nope, t, row), latent);
    std::memcpy(to + latent, address(q_pe, t, row), static_cast<size_t>(init.qk_rope_head_dim) * size);
  }
  void* out_row(int64_t t, int64_t row) const override { return address(out, t, row); }
  float* lse_of(int64_t, int64_t) const override { return nullptr; }

 private:
  static std::byte* address(const View& v, int64_t t, int64_t head) {
    return static_cast<std::byte*>(v.data()) +
           (t * v.stride(0) + head * v.stride(1)) * static_cast<int64_t>(dtype_size(v.dtype()));
  }
};

class FlashMLASparseFwdTiles final : public FlashMLASparseFwd {
 public:
  using FlashMLASparseFwd::FlashMLASparseFwd;

  std::string_view refuse(Args args) const override {
    std::string_view why = refuse_call(args);
    return why.empty() ? refuse_floats({&args[0], &args[1], &args[2], &args[6]}) : why;
  }

  void forward(Context& ctx, View q_nope, View q_pe, View cache, View indices, View block_table, OptView cu_seqlens_q,
               View out) override {
    const int64_t T = q_nope.size(0), k = init_.top_k;
    auto numbers = [&](int64_t n) { return ctx.arena.make({{n}, DType::kI32}).ptr<int32_t>(); };
    int32_t *sequences = numbers(T), *counts = numbers(T), *lists = numbers(T * k);
    int64_t s = 0;
    for (int64_t t = 0; t < T; ++t) {
      while (cu_seqlens_q && cu_seqlens_q->ptr<int32_t>()[s + 1] <= t) ++s;
      sequences[t] = static_cast<int32_t>(cu_seqlens_q ? s : t);
    }
    for_rows(ctx.pool, T, k, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int32_t* from = indices.ptr<int32_t>() + t * indices.stride(0);
        counts[t] = 0;
        for (int64_t i = 0; i < k; ++i)
          if (from[i] >= 0) lists[t * k + counts[t]++] = from[i];
      }
    });
    latent_attention(ctx, latent_kernel(q_nope.dtype()),
                     {init_.kv_lora_rank + init_.qk_rope_head_dim, init_.kv_lora_rank, init_.softmax_scale,
                      q_nope.dtype()},
                     ListedLatents(init_, q_nope, q_pe, cache, block_table, out, sequences, counts, lists));
  }
};

FK_IMPLEMENTATION(FlashMLASparseFwd, FlashMLASparseFwdTiles, "cpu.tiles", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
